"""The runs of a sweep, and what is refused before the first one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from testbed.cli.main import parser
from testbed.cli.options import parsed
from testbed.common.errors import UserError
from testbed.runs.sweep_state import SweepCell
from testbed.sweeps.sweep_cells import SweepSettings, _varied, plan
from tests.testbed.examples import MINIMAL, write_profile


@pytest.fixture(autouse=True)
def own_import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path.copy())


def planned(folder: Path, *words: str, profile: str = MINIMAL) -> list[SweepCell]:
    path = write_profile(folder, profile)
    line = ["sweep", str(path), "--out", str(folder / "out"), *words]
    namespace = parser(line).parse_args(line)
    return plan(parsed(SweepSettings, namespace))


def names(folder: Path, *words: str) -> list[str]:
    return [cell.name for cell in planned(folder, *words)]


def test_without_options_there_is_one_run_as_the_profile_says(tmp_path: Path) -> None:
    [cell] = planned(tmp_path)
    assert (cell.name, cell.words, cell.seconds) == ("fedavg-seed0", ["run", str(tmp_path / "mine.toml")], 60.0)


@pytest.mark.parametrize(
    ("text", "seeds"), [("1", [1]), ("3", [1, 2, 3]), ("1,2,7", [1, 2, 7]), ("7,", [7]), ("0,", [0]), ("5, 6", [5, 6])]
)
def test_seeds_are_a_number_or_a_list(tmp_path: Path, text: str, seeds: list[int]) -> None:
    assert names(tmp_path, "--seeds", text) == [f"fedavg-seed{seed}" for seed in seeds]


def test_all_combinations_are_run_and_seeds_change_fastest(tmp_path: Path) -> None:
    found = names(tmp_path, "--strategy", "fedavg,fedasync", "--seeds", "2", "--vary", "training.lr=0.1,0.05")
    assert found == [
        f"{strategy}-lr_{lr}-seed{seed}"
        for strategy in ("fedavg", "fedasync")
        for lr in ("0.1", "0.05")
        for seed in (1, 2)
    ]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("[1,2]", ["[1,2]"]),
        ("[1,2],[3, [4,5]]", ["[1,2]", "[3, [4,5]]"]),
        ("{a=1,b=2},7", ["{a=1,b=2}", "7"]),
        ('"a,b",c', ['"a,b"', "c"]),
        ("'[',2", ["'['", "2"]),
        ("0.1, 0.2", ["0.1", "0.2"]),
    ],
)
def test_values_are_not_split_within_brackets_or_quotes(text: str, values: list[str]) -> None:
    assert _varied(f"key={text}") == ("key", values)


def test_a_long_name_is_shortened_and_stays_unique(tmp_path: Path) -> None:
    many = ("training.lr", "training.momentum", "presence.timeout", "evaluation.every", "devices[0].suspend_max")
    found = names(tmp_path, *(f"--vary={key}=0.125,0.25" for key in many), "--set=presence.heartbeat=0.05")
    assert len(set(found)) == 32
    assert max(map(len, found)) == 60 + len("-seed0")
    assert all(name.startswith("fedavg-lr_0.") and name.endswith("-seed0") for name in found)


def test_the_words_of_a_run_have_all_its_options(tmp_path: Path) -> None:
    [cell] = planned(
        tmp_path,
        "--strategy",
        "fedasync",
        "--seeds",
        "4,",
        "--set",
        "training.steps=2",
        "--vary",
        "strategy.alpha=0.5",
        "--seconds",
        "3",
        "--dilation",
        "auto",
        "--compress",
        "--no-admission",
        "--no-report",
    )
    assert cell.words == [
        "run",
        str(tmp_path / "mine.toml"),
        "--strategy=fedasync",
        "--seed=4",
        "--seconds=3.0",
        "--dilation=auto",
        "--set=training.steps=2",
        "--set=strategy.alpha=0.5",
        "--compress",
        "--no-admission",
        "--no-report",
    ]


def test_the_seconds_of_a_run_follow_from_its_profile(tmp_path: Path) -> None:
    assert [cell.seconds for cell in planned(tmp_path, "--seconds", "3", "--dilation", "2")] == [6.0]
    endless = f"{MINIMAL}\nstop = {{ versions = 5 }}"
    assert [cell.seconds for cell in planned(tmp_path, profile=endless)] == [None]


def test_a_digest_changes_with_the_experiment_and_not_with_its_spelling(tmp_path: Path) -> None:
    [one] = planned(tmp_path)
    [same] = planned(tmp_path, "--strategy", "fedavg", "--seeds", "0,", "--set", "stop.seconds=60")
    [other] = planned(tmp_path, "--set", "training.lr=0.2")
    assert one.digest == same.digest != other.digest


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--seeds", "many"], "--seeds is 'many'; it must be how many, such as 5, or which: 1,2,7"),
        (["--seeds", "-2"], "--seeds is '-2'"),
        (["--seeds", ","], "--seeds is ','"),
        (["--seeds", "0"], "--seeds is 0; a sweep needs at least one (the seed 0 is 0,)"),
        (["--strategy", "fedavg,,fedasync"], "--strategy is 'fedavg,,fedasync'"),
        (["--strategy", "fedavg,fedavgg"], "did you mean 'fedavg'"),
        (["--vary", "training.lr"], "--vary training.lr is not of the form key=value,value,…"),
        (["--vary", "training.lr=0.1,"], "--vary training.lr is '0.1,'"),
        (["--vary", "training.lr=0.1,-1"], "training.lr is -1"),
        (["--vary", "training.l=0.1"], "training.l is not a known key"),
        (["--strategy", "fedavg,fedasync", "--set", "strategy.alpha=0.5"], "strategy.alpha is not a known key"),
        (["--strategy", "fedavg,fedavg"], "two runs of the sweep would be called fedavg-seed0"),
        (["--replay", "absent"], "there is no such run folder"),
    ],
)
def test_wrong_input_is_refused_before_the_first_run(tmp_path: Path, words: list[str], problem: str) -> None:
    with pytest.raises(UserError) as caught:
        planned(tmp_path, *words)
    assert problem in str(caught.value)
    assert not (tmp_path / "out").exists()
