"""Rounds of AFL and Sync-FL with the measures of their paper, calculated by hand."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from testbed.analysis import round_metrics
from testbed.analysis.round_metrics import RoundCounter
from testbed.common.files.spool import RowSpool
from testbed.history.event_pass import pass_events
from testbed.history.events.watts import Watts
from testbed.history.trace import Event, Joined, Round, Scored
from testbed.runs.results import columns
from testbed.runs.results.summary import RoundSums
from testbed.runs.results.table_rows import RoundRow
from tests.testbed.examples import device_spec
from tests.testbed.runs.folders import new_folder, write_results


def joined(device: str, watts: float | None, at: float = 0.0) -> Joined:
    model = None if watts is None else Watts(idle=100.0, compute=watts)  # idle watts do not count
    return Joined(t=at, device=device, pid=1, cores=[1], samples=10, watts=model)


def ended(number: int, at: float, **seconds: float) -> Round:
    return Round(t=at, number=number, devices=list(seconds), seconds=list(seconds.values()))


def rows_of(events: Iterable[Event]) -> list[RoundRow]:
    counter = RoundCounter()
    pass_events(events, counter)
    return list(counter.rows)


FLEET = [joined("a", 2.0), joined("b", 3.0), joined("c", 8.0)]
ROUNDS = [ended(1, 4.5, a=1.5, b=3.5), ended(2, 9.0, c=0.25), ended(3, 12.0, b=2.0, c=0.5, a=1.0)]


def test_the_rows_have_each_figure_right() -> None:
    assert [msgspec.to_builtins(row) for row in rows_of([*FLEET, *ROUNDS])] == [
        {
            "round": 1,
            "time_s": 4.5,
            "devices": 2,
            "fastest_s": 1.5,
            "slowest_s": 3.5,
            "delay_s": 2.0,
            "cumulative_delay_s": 2.0,
            "energy_proxy_j": 13.5,  # 2·1.5 + 3·3.5
        },
        {
            "round": 2,
            "time_s": 9.0,
            "devices": 1,
            "fastest_s": 0.25,
            "slowest_s": 0.25,
            "delay_s": 0.0,
            "cumulative_delay_s": 2.0,
            "energy_proxy_j": 15.5,  # + 8·0.25
        },
        {
            "round": 3,
            "time_s": 12.0,
            "devices": 3,
            "fastest_s": 0.5,
            "slowest_s": 2.0,
            "delay_s": 1.5,
            "cumulative_delay_s": 3.5,
            "energy_proxy_j": 27.5,  # + 3·2 + 8·0.5 + 2·1
        },
    ]


def test_a_device_that_came_twice_counts_twice() -> None:
    twice = Round(t=1.0, number=1, devices=["a", "b", "a"], seconds=[1.0, 2.0, 0.5])
    (row,) = rows_of([*FLEET, twice])
    assert (row.devices, row.delay_s, row.energy_proxy_j) == (3, 1.5, 9.0)  # 2·1 + 3·2 + 2·0.5


def test_every_column_is_in_every_row() -> None:
    for row in rows_of([*FLEET, *ROUNDS]):
        assert list(columns.as_cells(row)) == columns.column_names(RoundRow)


def test_without_the_watts_of_a_device_there_are_no_joules_from_its_first_round_on() -> None:
    fleet = [joined("a", 2.0), joined("b", 3.0), joined("c", None)]
    found = rows_of([*fleet, *ROUNDS])
    assert [row.energy_proxy_j for row in found] == [13.5, None, None]
    assert [row.cumulative_delay_s for row in found] == [2.0, 2.0, 3.5]


def test_a_device_that_is_in_no_round_needs_no_watts() -> None:
    found = rows_of([*FLEET, joined("d", None), *ROUNDS])
    assert found[-1].energy_proxy_j == 27.5


def test_a_device_may_join_between_rounds() -> None:
    found = rows_of([joined("a", 2.0), ended(1, 1.0, a=1.0), joined("b", 3.0, at=1.5), ended(2, 2.0, b=1.0)])
    assert [row.energy_proxy_j for row in found] == [2.0, 5.0]


@pytest.mark.parametrize(
    "events", [[], FLEET, [*FLEET, Scored(t=1.0, version=1, made=0.5, metrics={})], [*FLEET, ended(1, 1.0)]]
)
def test_where_no_round_had_a_device_there_are_no_rows_and_no_summary(events: list[Event]) -> None:
    assert rows_of(events) == []
    assert round_metrics.sums(RowSpool(RoundRow)) is None


def test_the_summary_has_the_sums_of_the_last_row() -> None:
    found = rows_of([*FLEET, *ROUNDS])
    assert round_metrics.sums(RowSpool(RoundRow, found)) == RoundSums(
        count=3, cumulative_delay_s=3.5, energy_proxy_j=27.5
    )
    assert round_metrics.sums(RowSpool(RoundRow, found[:1])) == RoundSums(
        count=1, cumulative_delay_s=2.0, energy_proxy_j=13.5
    )


# ---- in the run folder


def test_a_run_with_rounds_has_a_table_of_them_and_their_summary(tmp_path: Path) -> None:
    folder = new_folder(tmp_path, [*FLEET, *ROUNDS])
    summary = write_results(folder, [device_spec(name) for name in "abc"])
    assert summary.rounds == RoundSums(count=3, cumulative_delay_s=3.5, energy_proxy_j=27.5)
    stored = json.loads((folder.path / "summary.json").read_text(encoding="utf-8"))
    assert stored["rounds"] == {"count": 3, "cumulative_delay_s": 3.5, "energy_proxy_j": 27.5}
    with (folder.path / "rounds.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    assert list(table[0]) == columns.column_names(RoundRow)
    assert [(row["round"], row["delay_s"], row["energy_proxy_j"]) for row in table] == [
        ("1", "2.0", "13.5"),
        ("2", "0.0", "15.5"),
        ("3", "1.5", "27.5"),
    ]


def test_a_run_without_rounds_has_no_table_of_them(tmp_path: Path) -> None:
    folder = new_folder(tmp_path, list(FLEET))
    assert write_results(folder, [device_spec(name) for name in "abc"]).rounds is None
    assert not (folder.path / "rounds.csv").exists()
