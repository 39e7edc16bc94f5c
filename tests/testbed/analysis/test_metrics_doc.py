"""docs/metrics.md describes every column and key, in their order, and no other."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from testbed.common.documented import meanings
from testbed.history import trace
from testbed.history.trace import Round
from testbed.host.rapl import HostEnergy
from testbed.profile.schema import Replay
from testbed.runs.results.summary import Summary
from testbed.runs.results.table_rows import DeviceRow, MetricRow, RoundRow, VersionRow
from tests.testbed.analysis import histories
from tests.testbed.examples import device_spec
from tests.testbed.replay.test_replay_setup import recorded
from tests.testbed.runs.folders import new_folder, write_results
from tests.testbed.runs.test_tensorboard import HEADER

DOCUMENT = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text(encoding="utf-8")
FREE = {
    "scores": "<metric>",
    "to_accuracy": "<level>",
    "reasons": "<reason>",
    "refusals": "<reason>",
    "energy.by_phase_j": "<phase>",
    "energy.wasted_by_fate_j": "<fate>",
    "host_energy.joules": "<package>",
}
"""Tables whose keys are not fixed names."""
ROW = r"^\| `([^`]+)` \|(.*?)\| (.*) \|$"
ELSEWHERE = ("fidelity", "replay")
"""Tables that are also separate files."""
EVENTS: list[trace.Event] = [
    HEADER,
    histories.joined(),
    histories.sent(1),
    histories.download(1, 0.0, 1.0),
    histories.trained(1, 3.0, 2.0),
    histories.made(1, 4.0, 1),
    histories.scored(1, 4.0, 0.75),
    Round(t=4.0, number=1, devices=["a"], seconds=[3.0]),
    histories.sent(2, 4.0),
    trace.Lost(t=5.0, device="a", ticket=2, reason="gave up"),
    histories.upload(2, 4.0, 5.0),
    histories.sent(3, 5.0, steps=0),
    histories.download(3, 5.0, 6.0),
    trace.Refusal(t=7.0, peer="stranger/x", reason="unknown device"),
    trace.OutOfRange(t=7.0, version=1, norm=1e17, start=1.0, device="a", largest=1e17),
    histories.stopped(8.0),
]
"""Events for every key that a summary may have."""


def documented(heading: str) -> list[str]:
    """The first column of the table below a heading."""
    section = DOCUMENT.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^\| `([^`]+)` \|", section, flags=re.MULTILINE)


def keys(table: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for name, value in table.items():
        place = f"{above}{FREE.get(above[:-1], name)}"
        if isinstance(value, Mapping) and name not in ELSEWHERE:
            yield from keys(value, f"{place}.")
        else:
            yield place


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A folder with every possible result file, and the summary."""
    tmp_path = tmp_path_factory.mktemp("run")
    folder = new_folder(tmp_path / "runs", EVENTS)
    with folder.trace.open("ab") as file:
        file.write(b"torn")
    summary = write_results(
        folder,
        [device_spec("a")],
        Replay(trace=str(recorded(tmp_path, EVENTS))),
        target=0.75,
        host_energy=HostEnergy(joules={"intel-rapl:0": 1.0}, seconds=1.0, what="measured"),
    )
    return folder.path, msgspec.to_builtins(summary)


@pytest.mark.parametrize("name", ["metrics.csv", "versions.csv", "devices.csv", "rounds.csv"])
def test_every_column_is_documented(run: tuple[Path, dict[str, Any]], name: str) -> None:
    with (run[0] / name).open(encoding="utf-8", newline="") as file:
        columns = next(csv.reader(file))
    metrics = ["accuracy", "loss"] if name == "metrics.csv" else []
    assert documented(f"`{name}`") == [*columns[: len(columns) - len(metrics)], *(["<metric>"] if metrics else [])]
    assert columns[len(columns) - len(metrics) :] == metrics


def test_every_key_of_the_summary_is_documented(run: tuple[Path, dict[str, Any]]) -> None:
    found = list(dict.fromkeys(keys(run[1])))
    assert documented("`summary.json`") == found
    assert {place for place in found if "<" in place} == {
        "to_accuracy.<level>.seconds",
        "to_accuracy.<level>.joules",
        "to_accuracy.<level>.bytes",
        "reasons.<reason>",
        "refusals.<reason>",
        "scores.<metric>.last",
        "scores.<metric>.lowest",
        "scores.<metric>.highest",
        "energy.by_phase_j.<phase>",
        "energy.wasted_by_fate_j.<fate>",
        "host_energy.joules.<package>",
    }


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("metrics.csv", MetricRow),
        ("versions.csv", VersionRow),
        ("devices.csv", DeviceRow),
        ("rounds.csv", RoundRow),
        ("summary.json", Summary),
    ],
)
def test_units_and_meanings_are_those_of_the_definition(name: str, kind: type[msgspec.Struct]) -> None:
    section = DOCUMENT.split(f"## `{name}`\n", 1)[1].split("\n## ", 1)[0]
    rows = {place: (unit.strip(), text) for place, unit, text in re.findall(ROW, section, flags=re.MULTILINE)}
    of_columns = {"scores.<metric>": "<metric>"} if kind is MetricRow else {}
    assert rows == {of_columns.get(place, place): (unit, meaning) for place, unit, meaning in meanings(kind)}


def test_every_file_is_documented(run: tuple[Path, dict[str, Any]]) -> None:
    written = {path.name for path in run[0].iterdir()} - {"logs"}
    others = {"profile.toml", "meta.json", "report.html", "tensorboard/", "checkpoints/final.safetensors", "logs/"}
    assert set(documented("Files")) == written | others


def test_every_line_of_a_table_says_something() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|.*\| ([^|]*) \|$", DOCUMENT, flags=re.MULTILINE)
    assert len(rows) > 100
    assert not [name for name, meaning in rows if not meaning.strip()]
