"""``list``: every strategy with its citation, parameters and documentation; every power model with watts and source."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from rich.cells import cell_len

from aggregator.strategies import STRATEGIES
from testbed.cli import list_command, main
from testbed.common.json_schema import JsonSchema
from testbed.common.json_text import json_text
from testbed.common.parameters import describe
from testbed.learning.data import loader
from testbed.learning.models import NETWORKS
from testbed.learning.tasks import TASKS
from testbed.loading.profile_schema import device_schema, experiment_schema, link_schema
from testbed.profile.power import Power

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)
YEAR = r"\b(?:19|20)\d\d\b"


def document(strategy: str) -> str:
    """Return the docstring of the strategy's module."""
    return sys.modules[STRATEGIES[strategy].__module__].__doc__ or ""


def one_line(text: str) -> str:
    return " ".join(text.split())


def citation(strategy: str) -> str:
    return one_line(document(strategy).split("\n\n")[1])


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal on which nothing is wrapped."""
    monkeypatch.setenv("COLUMNS", "400")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main.main(["list", *words]) == 0
    return capsys.readouterr().out


def section(text: str, strategy: str) -> list[str]:
    """Return the lines of a verbose list about one strategy, with single spaces."""
    blocks = [[one_line(line) for line in block.splitlines()] for block in text.split("\n\n")]
    (block,) = [block for block in blocks if block and block[0].startswith(f"{strategy} ")]
    return block


# ---- the terminal


@pytest.mark.usefixtures("wide")
@every_strategy
def test_a_verbose_list_has_title_citation_and_every_parameter_with_default_range_and_meaning(
    strategy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = section(printed(capsys, "strategies", "-v"), strategy)
    assert lines[0] == f"{strategy} {STRATEGIES[strategy].__doc__}"
    assert lines[1] == citation(strategy)
    parameters = [one_line(" ".join(row)) for row in describe(STRATEGIES[strategy])]
    assert lines[2:] == (["parameter default allowed meaning", *parameters] if parameters else [])


@every_strategy
def test_every_parameter_has_a_meaning_and_none_is_private(strategy: str) -> None:
    for name, default, allowed, meaning in describe(STRATEGIES[strategy]):
        assert not name.startswith("_")
        assert all((name, default, allowed, meaning))


def test_the_listed_strategies_are_those_of_the_catalogue_in_its_order(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "strategies").splitlines()
    assert [line.split()[0] for line in lines] == list(STRATEGIES) == sorted(STRATEGIES)


@pytest.mark.parametrize("columns", ["80", "120"])
def test_on_a_narrow_terminal_a_verbose_list_is_wrapped_and_nothing_is_cut_off(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    text = printed(capsys, "strategies", "-v")
    assert "…" not in text
    assert max(cell_len(line) for line in text.splitlines() if line.startswith(" ")) <= int(columns)
    words = set(text.split())
    for strategy in STRATEGIES:
        assert set(citation(strategy).split()) <= words
        assert {name for name, *_ in describe(STRATEGIES[strategy])} <= words


@pytest.mark.usefixtures("wide")
def test_required_parameters_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "strategies", "-v")
    assert "interval required at least 0.001 and at most 1e+09 seconds per iteration" in section(text, "audg")
    assert "tau_max unset at least 0 τ_max: updates staler than this are rejected" in section(text, "afl")
    assert "weighting samples one of samples, equal λ_i: share of the samples, or equal" in section(text, "psurdg")


# ---- json


@pytest.mark.parametrize("verbose", [[], ["-v"]])
def test_a_list_as_json_has_title_citation_and_parameters_of_every_strategy(
    verbose: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rows: list[dict[str, Any]] = json.loads(printed(capsys, "strategies", "--format", "json", *verbose))
    assert rows == [
        {
            "name": strategy,
            "title": cls.__doc__,
            "parameters": [list(row) for row in describe(cls)],
            "details": [citation(strategy)],
        }
        for strategy, cls in STRATEGIES.items()
    ]


# ---- json schema


@pytest.mark.parametrize(
    ("what", "schema"), [("keys", experiment_schema), ("devices", device_schema), ("links", link_schema)]
)
def test_a_list_of_a_kind_of_file_has_a_json_schema(
    what: str, schema: Callable[[], JsonSchema], capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(capsys, what, "--format", "json-schema") == json_text(schema()) + "\n"


@pytest.mark.parametrize("what", ["strategies", "tasks", "splits"])
def test_other_lists_have_no_json_schema_and_name_the_one_that_contains_them(
    what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["list", what, "--format", "json-schema"]) == 2
    assert capsys.readouterr() == (
        "",
        f"error: --format json-schema describes a file, and {what} have none: use list keys --format json-schema,"
        f" which contains all {what}\n",
    )


# ---- power models


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize(
    ("what", "name", "lines"),
    [
        (
            "devices",
            "rpi4",
            [
                "power (proxy): 2.29 W idle, 6.82 W computing; suspended: as when idle; sending: as its link says;"
                " receiving: as its link says",
                "source of power: joular/powermodels, rbp4b1.2-64, linear fit",
            ],
        ),
        ("links", "lte", ["power (proxy): +2 W sending, +1.4 W receiving", "source of power: estimate"]),
        ("devices", "host", ["source: none: runs as fast as the core it is pinned to"]),
    ],
)
def test_a_verbose_list_has_the_watts_and_their_source(
    what: str, name: str, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert section(printed(capsys, what, "-v"), name)[-len(lines) :] == lines


def test_watts_of_a_device_profile_are_shown() -> None:
    power = Power(idle=1, compute=5, suspended=0.25, transmit=3, receive=0)
    assert list_command._watts(power) == [
        "power (proxy): 1 W idle, 5 W computing; suspended: 0.25 W; sending: +3 W; receiving: +0 W",
        "source of power: not given",
    ]


# ---- networks and speeds


@pytest.mark.usefixtures("wide")
def test_a_verbose_list_of_networks_has_their_sizes_and_the_tasks_that_offer_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = printed(capsys, "networks", "-v")
    assert section(text, "resnet18-bn")[1:] == [
        "11,173,962 parameters, 9,600 numbers in buffers",
        "input: 3×32×32, outputs: 10",
        "tasks: cifar10, npz, images, huggingface",
    ]
    assert section(text, "cnn")[1:] == [
        "21,840 parameters",
        "input: 1×28×28, outputs: 10",
        "tasks: digits, mnist, fashion_mnist, npz, images, huggingface",
    ]


def test_every_network_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert [line.split()[0] for line in printed(capsys, "networks").splitlines()] == list(NETWORKS)


@pytest.mark.usefixtures("wide")
def test_a_verbose_list_says_which_speeds_were_derived_from_flops(capsys: pytest.CaptureFixture[str]) -> None:
    lines = section(printed(capsys, "devices", "-v"), "rpi5")
    assert "lenet: 0.55 ms per sample" in lines
    assert "resnet18: 104 ms per sample, derived from FLOPs" in lines


# ---- data sets


STORED = {name: cls.stored for name, cls in TASKS.items() if hasattr(cls, "stored")}


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("task", STORED)
def test_a_verbose_list_has_size_licence_and_citation_of_the_data_set_of_a_task(
    task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert section(printed(capsys, "tasks", "-v"), task)[1] == one_line(dict(loader.described())[STORED[task]])


def test_tasks_without_a_file_of_data_have_no_data_set(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(printed(capsys, "tasks", "--format", "json"))
    assert {row["name"] for row in rows if row["details"]} == set(STORED)
    assert {"mnist", "fashion_mnist", "cifar10", "femnist"} <= set(STORED)
    assert not {"digits", "synthetic", "regression"} & set(STORED)


def test_other_lists_do_not_import_the_readers_of_data_sets() -> None:
    code = (
        "import sys; from testbed.cli import main; main.main(['list', 'splits', '-v']);"
        " sys.exit('testbed.learning.data.loader' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300, stdout=subprocess.DEVNULL)


# ---- documentation of the strategies


@every_strategy
def test_the_document_of_a_strategy_has_its_sections_in_order_and_none_is_empty(strategy: str) -> None:
    paragraphs = [part.strip("\n") for part in document(strategy).split("\n\n")]
    assert len(paragraphs) >= 5  # one line, the citation, and the sections
    assert "\n" not in paragraphs[0]
    heads = [part.splitlines()[0].strip() for part in paragraphs[2:]]
    assert [head for head in heads if head in ("Symbols", "Rule", "Departures")] == ["Symbols", "Rule", "Departures"]
    assert heads[0] == "Symbols"
    for part in paragraphs[2:]:
        first, *rest = part.splitlines()
        assert not first.startswith(" ")
        assert rest
        assert all(line.startswith("    ") for line in rest)


@every_strategy
def test_the_citation_of_a_strategy_has_authors_title_and_year(strategy: str) -> None:
    authors, colon, rest = citation(strategy).partition(":")
    assert colon
    assert re.fullmatch(r"[A-ZÀ-Ž][\w\- ]+(?:, [A-ZÀ-Ž][\w\- ]+)*", authors)
    assert len(rest) > 10
    assert re.search(YEAR, rest)


@every_strategy
def test_the_title_of_a_strategy_has_the_authors_of_the_citation_and_a_year(strategy: str) -> None:
    title = STRATEGIES[strategy].__doc__ or ""
    assert "\n" not in title
    found = re.search(rf"\((?:.* of )?([A-Z]\w+)(?: et al\.| and ([A-Z]\w+)),.*({YEAR})\)\.$", title)
    assert found is not None
    for name in (found[1], found[2], found[3]):
        assert name is None or name in citation(strategy)


@every_strategy
def test_every_strategy_is_in_a_file_of_its_name(strategy: str) -> None:
    module = STRATEGIES[strategy].__module__.rpartition(".")[2]
    assert module.replace("_", "") == strategy.replace("-", "")
