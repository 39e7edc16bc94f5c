"""The state that fills most of each column, calculated by hand, and the marks on top."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from testbed.analysis.timeline import Timeline
from testbed.history.event_pass import pass_events
from testbed.history.trace import Event
from testbed.report.content.device_lanes import COLUMNS, IDLE, LANE_STATES, Lanes, TimelineBuilder
from tests.testbed.analysis.histories import abandoned, download, scripted, suspended, trained, upload
from tests.testbed.report.examples import SMALL


def paint(events: Iterable[Event], devices: list[str], seconds: float, columns: int = COLUMNS) -> Lanes:
    builder = TimelineBuilder()
    timeline = Timeline(builder.add)
    pass_events(events, timeline, builder)
    timeline.end(seconds)
    return builder.lanes(devices, seconds, columns)


def states(lanes: Lanes, lane: int = 0) -> list[str]:
    return [LANE_STATES[number] for number in lanes.cells[lane]]


def painted(*events: Event, seconds: float = 8.0, columns: int = 8) -> list[str]:
    return states(paint(events, ["a"], seconds, columns))


def test_a_column_has_the_state_that_fills_it() -> None:
    lane = painted(download(1, 0.0, 1.0), trained(1, 4.0, 3.0), upload(1, 4.0, 6.0))
    assert lane == ["download", *["computing"] * 3, *["upload"] * 2, IDLE, IDLE]


def test_of_several_states_the_one_that_fills_most_of_it_has_the_column() -> None:
    assert painted(download(1, 0.0, 0.25), trained(1, 1.0, 0.75), columns=4, seconds=4.0)[0] == "computing"
    assert painted(download(1, 0.0, 0.25), trained(1, 0.5, 0.25), columns=4, seconds=4.0)[0] == IDLE


def test_short_spans_add_up() -> None:
    spans = [download(1, start, start + 0.125) for start in (0.0, 0.125, 0.25, 0.375, 0.5)]
    assert painted(*spans)[0] == "download"


def test_a_span_across_columns_fills_parts_of_the_first_and_the_last() -> None:
    assert painted(trained(1, 3.75, 2.5)) == [IDLE, "computing", "computing", "computing", *[IDLE] * 4]
    assert painted(trained(1, 3.25, 1.5)) == [IDLE, IDLE, "computing", *[IDLE] * 5]


def test_a_job_stands_still_while_it_is_suspended() -> None:
    lane = painted(suspended(1, 2.0, 4.0), trained(1, 6.0, 4.0))
    assert lane == [*["computing"] * 2, *["suspended"] * 2, *["computing"] * 2, IDLE, IDLE]


def test_discarded_work_is_abandoned() -> None:
    assert painted(abandoned(1, 2.0, 2.0))[:3] == ["abandoned", "abandoned", IDLE]


def test_a_device_that_does_not_rejoin_is_dead_until_the_end() -> None:
    assert painted(scripted("kill", 5.0)) == [*[IDLE] * 5, *["dead"] * 3]
    assert painted(scripted("kill", 2.0), scripted("rejoin", 4.0)) == [*[IDLE] * 2, *["dead"] * 2, *[IDLE] * 4]


def test_spans_after_the_end_are_cut_off() -> None:
    assert painted(trained(1, 12.0, 6.0)) == [*[IDLE] * 6, "computing", "computing"]
    assert painted(trained(1, 12.0, 2.0)) == [IDLE] * 8


def test_each_device_of_the_run_has_a_lane_and_no_other() -> None:
    lanes = paint([trained(1, 8.0, 8.0, "b"), trained(2, 8.0, 8.0, "stranger")], ["a", "b", "c"], 8.0)
    assert lanes.cells.shape == (3, 1200)
    assert [set(states(lanes, lane)) for lane in range(3)] == [{IDLE}, {"computing"}, {IDLE}]


def test_the_real_shares_are_kept_beside_the_columns() -> None:
    lanes = paint([download(1, 0.0, 1.0), trained(1, 4.0, 3.0)], ["a"], 8.0, columns=2)
    assert states(lanes) == ["computing", IDLE]
    shares = {state: lanes.shares[number, 0] for number, state in enumerate(LANE_STATES) if lanes.shares[number, 0]}
    assert shares == {IDLE: 0.5, "download": 0.125, "computing": 0.375}


def test_overlapping_spans_leave_no_negative_idle_time() -> None:
    lanes = paint([trained(1, 8.0, 8.0), download(2, 0.0, 4.0)], ["a"], 8.0)
    assert np.all(lanes.shares >= 0)
    assert IDLE not in states(lanes)


# ---- marks


def test_a_drop_is_marked_where_it_ended_however_short_it_was() -> None:
    lanes = paint(
        [download(1, 1.0, 1.0009765625, dropped=True), trained(1, 8.0, 6.5), upload(1, 7.0, 7.5, dropped=True)],
        ["a"],
        8.0,
    )
    assert lanes.drops == ((0, 1.0009765625), (0, 7.5))
    assert lanes.dropped == 2


def test_a_lost_transfer_with_an_absence_is_one_drop() -> None:
    events = [suspended(0, 1.0, 2.0, away=True), upload(1, 0.0, 4.0, absent=1.0, dropped=True)]
    lanes = paint(events, ["a"], 8.0, columns=8)
    assert (lanes.drops, lanes.dropped) == (((0, 4.0),), 1)
    assert states(lanes) == ["upload", "suspended", "upload", "upload", *[IDLE] * 4]


def test_overlapping_marks_are_drawn_once_and_all_are_counted() -> None:
    events = [upload(1, 0.0, 4.0 + i / 1024, dropped=True) for i in range(8)]
    lanes = paint(events, ["a", "b"], 8.0)
    assert (lanes.drops, lanes.dropped) == (((0, 4.0),), 8)


def test_the_number_of_marks_is_limited() -> None:
    devices = [f"d-{i}" for i in range(500)]
    events = [upload(1, 0.0, (i + 1) / 128, device, dropped=True) for device in devices for i in range(128)]
    lanes = paint(events, devices, 1.0)
    assert lanes.dropped == 500 * 128
    assert 500 * 20 <= len(lanes.drops) <= 41_000
    assert {lane for lane, _ in lanes.drops} == set(range(500))


def test_scripted_events_are_kept() -> None:
    lanes = paint(SMALL, ["a", "b"], 8.0)
    assert [(event.do, event.device, event.t) for event in lanes.scripted] == [("kill", "b", 4.0), ("rejoin", "b", 6.0)]


# ---- nothing


@pytest.mark.parametrize(("devices", "seconds"), [([], 8.0), (["a"], 0.0), ([], 0.0)])
def test_a_run_in_which_nothing_happened_has_idle_lanes(devices: list[str], seconds: float) -> None:
    lanes = paint([], devices, seconds)
    assert lanes.cells.shape == (len(devices), 1200)
    assert not lanes.cells.any()
    assert lanes.drops == ()
