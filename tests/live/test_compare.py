"""A run is recorded into a packed trace, two other strategies replay its delays, and the comparison confirms it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from testbed.history import trace
from tests.live.leftovers import nothing_left_over
from tests.live.runs import Outcome, command, complete, write_profile

pytestmark = pytest.mark.live

GROUPS: list[dict[str, Any]] = [
    {"profile": "rpi4", "link": "wifi", "count": 2, "drop": 0.25, "suspend": 0.3, "suspend_max": 0.2},
    {"profile": "phone-low", "name": "phone", "link": "5g", "drop": 0.2},
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Outcome]]:
    """A recorded run, and two replays: with a synchronous strategy, and with one that restarts devices."""

    def run(*options: str, **changes: Any) -> Outcome:
        folder = tmp_path_factory.mktemp("compare")
        return complete(write_profile(folder, devices=GROUPS, stop={"seconds": 2.0}, **changes), *options)

    with nothing_left_over():
        recorded = run("--compress")
        again = "--replay", str(recorded.folder)
        yield [recorded, run("--strategy", "fedavg", *again), run("--strategy", "safl-sc", *again, compress=True)]


def test_a_trace_is_packed_on_request_by_an_option_or_the_profile(runs: list[Outcome]) -> None:
    assert [(outcome.code, outcome.stderr) for outcome in runs] == [(0, "")] * 3
    names = [sorted(path.name for path in outcome.folder.glob("trace*")) for outcome in runs]
    assert names == [["trace.jsonl.gz"], ["trace.jsonl"], ["trace.jsonl.gz"]]
    assert all(isinstance(outcome.events[-1], trace.Stopped) for outcome in runs)


def test_replays_of_a_run_had_the_same_delays(runs: list[Outcome]) -> None:
    result = command("trace", "compare", *(str(outcome.folder) for outcome in runs), "--format", "json")
    table = json.loads(result.stdout)
    assert (result.returncode, table["equal"], table["notes"]) == (0, True, [])
    assert [(run["strategy"], run["replay"]) for run in table["runs"]] == [
        ("fedasync", ""),
        ("fedavg", "schedule"),
        ("safl-sc", "schedule"),
    ]
    assert [run["versions"] for run in table["runs"]] == [outcome.summary["versions"] for outcome in runs]
    assert [row["device"] for row in table["devices"]] == ["rpi4-1", "rpi4-2", "phone-1"]
    assert table["jobs"] >= 6
