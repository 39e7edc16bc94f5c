"""Devices with absences by an availability trace, on the manual clock.

A job is a download of 0.25 s, four steps of 0.5 s and an upload of 0.5 s.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devices.work import State
from testbed.emulation.faults import SeededTimetable
from testbed.history.trace import Miss, Suspended, Trained, TransferEvent
from testbed.profile.schema import Direction
from testbed.traces import availability
from testbed.traces.availability import AvailabilityTrace
from tests.devices.parts import LOST, Bench, FixedTimetable, kind_of
from tests.devices.test_device import SUSPENSION, Remote
from tests.devices.test_device_properties import TIMETABLES, TRAINS, WAITS
from tests.properties import examples

Away = Callable[..., str]
LATE = 0.1875


@pytest.fixture
def away(tmp_path: Path) -> Away:
    """Return a function that writes a trace with these absences in the first thousand seconds."""

    def write(*stretches: tuple[float, float]) -> str:
        rows = {0.0: 1.0} | {moment: flag for gone, back in stretches for moment, flag in ((gone, 0.0), (back, 1.0))}
        path = tmp_path / "there.csv"
        availability.load.cache_clear()
        availability.write(path, AvailabilityTrace(rows.keys(), rows.values(), 1000.0))
        return str(path)

    return write


def suspensions(bench: Bench) -> list[tuple[float, int, float, float]]:
    return [(event.t, event.ticket, event.asked, event.obtained) for event in bench.of_kind("suspended")]


# ---- in each part of a job


def test_an_absence_in_the_training_stops_computing_and_moves_the_rest(away: Away) -> None:
    bench = Bench(availability=away((2.0, 5.0)))
    bench.train(1, at=1.0)
    bench.run_until(3.0)
    assert (bench.device.state, bench.device.due(), bench.device.wants_step(3.0)) == (State.SUSPENDED, 5.0, False)
    bench.run_until(20.0)
    # work from 1.25, three quarters of a second until 2, the rest from 5 on
    assert bench.times == [("downloaded", 1.25), ("suspended", 5.0), ("trained", 6.25), ("uploaded", 6.75)]
    assert suspensions(bench) == [(5.0, 1, 3.0, 3.0)]
    [trained] = bench.of_kind("trained")
    assert (trained.asked, trained.obtained, trained.misses) == (2.0, 2.0, [])
    assert bench.dues == [(1, 6.75)]


def test_an_absence_in_the_download_moves_the_rest_of_it(away: Away) -> None:
    bench = Bench(availability=away((2.0, 5.0)))
    bench.train(1, at=1.875)
    bench.run_until(20.0)
    [down] = bench.of_kind("downloaded")
    assert (down.sent, down.asked, down.obtained, down.absent) == (1.875, 3.25, 3.25, 3.0)
    assert suspensions(bench) == [(5.0, 0, 3.0, 3.0)]
    assert bench.dues == [(1, 7.625)]


def test_an_absence_in_the_upload_moves_the_rest_of_it(away: Away) -> None:
    bench = Bench(availability=away((2.5, 5.5)))
    bench.train(1, at=0.0)  # trained at 2.25
    bench.run_until(20.0)
    [up] = bench.of_kind("uploaded")
    assert (up.sent, up.asked, up.obtained, up.absent, up.t) == (2.25, 3.5, 3.5, 3.0, 5.75)
    assert suspensions(bench) == [(5.5, 0, 3.0, 3.0)]
    assert bench.dues == [(1, 5.75)]


def test_a_train_that_is_sent_in_an_absence_is_downloaded_after_it(away: Away) -> None:
    bench = Bench(availability=away((2.0, 5.0)))
    bench.train(1, at=3.0)
    heartbeat = bench.device.heartbeat()
    assert (heartbeat.state, heartbeat.ticket, heartbeat.trains) == ("suspended", 1, 1)
    bench.run_until(20.0)
    [down] = bench.of_kind("downloaded")
    assert (down.sent, down.asked, down.t, down.absent) == (5.0, 0.25, 5.25, None)
    assert suspensions(bench) == [(5.0, 0, 3.0, 3.0)]
    assert bench.dues == [(1, 7.75)]


def test_an_idle_device_reports_its_absences(away: Away) -> None:
    bench = Bench(availability=away((2.0, 5.0), (8.0, 9.0)))
    assert bench.device.due() == 2.0
    bench.run_until(20.0)
    assert suspensions(bench) == [(5.0, 0, 3.0, 3.0), (9.0, 0, 1.0, 1.0)]
    assert bench.device.state is State.IDLE


def test_an_absence_in_which_the_run_begins_counts_from_the_start_of_the_run(away: Away) -> None:
    bench = Bench(availability=away((10.0, 15.0)), availability_offset=12.0)
    bench.train(1, at=0.0)
    bench.run_until(20.0)
    assert suspensions(bench) == [(3.0, 0, 3.0, 3.0)]
    assert bench.dues == [(1, 5.75)]


def test_several_absences_in_one_job_add_up(away: Away) -> None:
    bench = Bench(availability=away((0.125, 1.0), (1.5, 2.0), (2.25, 3.0), (4.0, 6.0)))
    bench.train(1, at=0.0)  # download until 1.125; trained 0.375, 0.25, 1 and the rest; upload
    bench.run_until(20.0)
    assert [ticket for _, ticket, _, _ in suspensions(bench)] == [0, 1, 1, 1]
    assert bench.of_kind("trained")[0].obtained == 2.0
    assert bench.dues == [(1, 6.875)]


def test_a_transfer_that_ends_when_an_absence_begins_has_arrived(away: Away) -> None:
    bench = Bench(availability=away((1.25, 2.0), (4.0, 5.0), (5.5, 6.0)))
    bench.train(1, at=1.0)  # downloaded at 1.25, trained at 4, uploaded at 5.5
    bench.run_until(20.0)
    assert bench.of_kind("downloaded")[0].obtained == 0.25
    assert bench.of_kind("trained")[0].obtained == 2.0
    [up] = bench.of_kind("uploaded")
    assert (up.sent, up.asked, up.absent) == (4.0, 1.5, 1.0)
    assert bench.dues == [(1, 5.5)]


# ---- computing and sending ahead


def test_steps_computed_ahead_do_not_end_a_job_whose_end_falls_into_an_absence(away: Away) -> None:
    bench = Bench(availability=away((3.1875, 5.0)), ahead=10.0, lead=0.125)
    bench.train(1, at=1.0)  # would be trained at 3.25, and could be finished from 3.125 on
    bench.run_until(20.0)
    assert bench.of_kind("trained")[0].t == 5.0625
    assert bench.dues == [(1, 5.5625)]


def test_an_update_that_must_be_sent_in_an_absence_is_sent_at_its_time(away: Away) -> None:
    """Not before the absence: the aggregator rejects an update that is due long after it was sent."""
    bench = Bench(availability=away((2.5, 5.5)), lead=0.5, suspend_by="signal")
    bench.train(1, at=0.0)
    bench.run_until(3.0)
    assert (bench.device.due(), bench.device.frozen_until) == (5.25, 5.25)
    bench.run_until(5.375)
    assert bench.device.frozen_until == 5.5
    bench.run_until(20.0)
    [(moment, update)] = bench.delivered
    assert (moment, update.due) == (5.25, 5.75)


def test_a_step_that_is_nearly_done_when_an_absence_begins_is_computed_before_it(away: Away) -> None:
    bench = Bench(availability=away((1.7421875, 5.0)), cost=0.0625)  # the first step has until 1.75
    bench.train(1, at=1.0)
    bench.run_until(20.0)
    assert bench.of_kind("trained")[0].misses == []


def test_a_device_on_a_slow_host_catches_up_during_its_absence(away: Away) -> None:
    bench = Bench(availability=away((2.5, 20.0)), cost=1.0)
    bench.train(1, at=0.0)  # four steps of a second instead of a half: computed at 4.25, and trained when it is back
    bench.run_until(30.0)
    [trained] = bench.of_kind("trained")
    assert (len(trained.misses), trained.misses[-1]) == (4, Miss(4, 0.5, 2.0))
    assert bench.dues == [(1, 20.5)]


def test_an_unpaced_device_stops_computing_when_an_absence_begins(away: Away) -> None:
    bench = Bench(availability=away((1.0, 5.0)), cost=0.0625, throttle="none", seconds_per_sample=None)
    bench.train(1, at=0.0, steps=20)  # from 0.25: twelve steps until 1, one more that had begun, the others from 5 on
    bench.run_until(3.0)
    assert (bench.device.state, bench.device.heartbeat().progress) == (State.SUSPENDED, 0.65)
    bench.run_until(20.0)
    assert bench.dues == [(1, 5.0 + 7 * 0.0625 + 0.5)]


def test_a_worker_is_paused_only_during_an_absence(away: Away) -> None:
    remote = Remote()
    bench = Bench(availability=away((1.0, 2.0), (4.0, 5.0)), throttle="cgroup", trainer=remote)
    bench.train(1, at=0.0)
    for moment in (0.75, 2.5, 3.0, 3.75):
        bench.run_until(moment)
        bench.device.progressed(1.0, moment)
    bench.run_until(20.0)  # the second absence is in the upload
    assert remote.begun[0].calls == ["pause", "resume"]
    assert bench.dues == [(1, 5.25)]


# ---- together with suspensions, new models and retries


def test_a_suspension_and_an_absence_that_overlap_are_reported_one_after_the_other(away: Away) -> None:
    bench = Bench(FixedTimetable(suspensions={0: SUSPENSION}), availability=away((4.0, 7.0)))
    bench.train(1, at=1.0)  # suspended from 2.25 to 5.25
    bench.run_until(20.0)
    assert suspensions(bench) == [(5.25, 1, 3.0, 3.0), (7.0, 1, 1.75, 1.75)]
    assert bench.dues == [(1, 8.5)]


def test_an_absence_within_a_suspension_changes_nothing(away: Away) -> None:
    bench = Bench(FixedTimetable(suspensions={0: SUSPENSION}), availability=away((3.0, 4.0)))
    bench.train(1, at=1.0)
    bench.run_until(20.0)
    assert suspensions(bench) == [(5.25, 1, 3.0, 3.0)]
    assert bench.dues == [(1, 6.75)]


def test_a_train_that_arrives_in_a_suspension_waits_for_the_end_of_the_absence_after_it(away: Away) -> None:
    bench = Bench(FixedTimetable(suspensions={0: SUSPENSION}), availability=away((4.0, 7.0)))
    bench.train(1, at=1.0)
    bench.train(2, at=3.0)
    bench.run_until(20.0)
    assert [event.sent for event in bench.of_kind("downloaded")] == [1.0, 7.0]
    assert bench.dues == [(2, 9.75)]


def test_a_new_model_that_is_sent_in_an_absence_replaces_the_work_after_it(away: Away) -> None:
    bench = Bench(availability=away((2.0, 5.0)))
    bench.train(1, at=1.0)
    bench.train(2, at=3.0)
    bench.run_until(20.0)
    assert bench.times[1:4] == [("suspended", 5.0), ("downloaded", 5.25), ("abandoned", 5.25)]
    assert bench.of_kind("abandoned")[0].seconds == 1.0
    assert bench.dues == [(2, 7.75)]


def test_a_model_that_was_due_before_an_absence_and_is_received_during_it_waits(away: Away) -> None:
    bench = Bench(availability=away((2.0, 5.0)))
    bench.train(1, at=2.125, sent=1.5)
    bench.run_until(20.0)
    assert bench.of_kind("downloaded")[0].sent == 5.0
    assert bench.dues == [(1, 7.75)]


@pytest.mark.parametrize(("policy", "due"), [("retry", 5.25), ("next_tick", 5.5)])
def test_a_retry_waits_for_the_end_of_an_absence(away: Away, policy: str, due: float) -> None:
    # lost at 2.75; tried again then until 3.25, or at the tick at 4, when the device is away
    bench = Bench(FixedTimetable(uploads={(0, 0): LOST}), availability=away((3.0, 5.0)), on_drop=policy)
    bench.train(1, at=0.0)
    bench.run_until(20.0)
    assert bench.dues == [(1, due)]


def test_a_device_suspended_by_signal_is_frozen_until_the_end_of_its_absence(away: Away) -> None:
    bench = Bench(availability=away((2.0, 5.0)), suspend_by="signal")
    bench.run_until(3.0)
    assert bench.device.frozen_until == 5.0
    bench.run_until(6.0)
    assert bench.device.frozen_until is None


def test_a_device_that_is_away_at_the_end_of_the_run_reports_its_absence(away: Away) -> None:
    bench = Bench(availability=away((2.0, 50.0)))
    bench.train(1, at=1.0)
    bench.run_until(4.0)
    bench.device.stop(4.0)
    suspension, abandoned = bench.device.take_events()
    assert (kind_of(suspension), suspension.asked, suspension.obtained) == ("suspended", 48.0, 2.0)
    assert (kind_of(abandoned), abandoned.seconds) == ("abandoned", 0.75)


# ---- a process that wakes late, and random scenarios


@pytest.mark.parametrize("stretch", [(2.0, 5.0), (1.125, 5.0), (3.5, 5.0), (2.0, 2.0625), (1.25, 3.25), (3.25, 9.0)])
def test_a_process_that_wakes_late_keeps_the_moments_of_its_schedule(away: Away, stretch: tuple[float, float]) -> None:
    dues = []
    for late in (0.0, LATE):
        bench = Bench(availability=away(stretch), late=late, ahead=0.75, lead=0.125)
        bench.train(1, at=1.0)
        bench.run_until(20.0)
        dues.append(bench.dues)
    assert dues[0] == dues[1]


@st.composite
def stretches(draw: st.DrawFn) -> AvailabilityTrace:
    """Return a trace: present for at least half a second at a time, away for at most five."""
    lengths = draw(st.lists(st.tuples(st.integers(4, 40), st.integers(1, 40)), min_size=1, max_size=4))
    *times, period = accumulate((eighths / 8 for pair in lengths for eighths in pair), initial=0.0)
    return AvailabilityTrace(times, [1, 0] * len(lengths), period)


def bench_of(folder: Path, trace: AvailabilityTrace, *rest: Any, **changes: Any) -> Bench:
    path = folder / "there.csv"
    availability.write(path, trace)
    return Bench(*rest, availability=str(path), **changes)


@examples(300)
@given(
    trace=stretches(),
    timetable=TIMETABLES,
    policy=st.sampled_from(["retry", "next_tick", "give_up"]),
    pace=st.sampled_from([1 / 64, None]),
    cost=st.sampled_from([0.0, 0.1, 0.7]),
    late=st.sampled_from([0.0, 0.2]),
    lead=st.sampled_from([0.0, 0.125]),
    ahead=st.sampled_from([0.0, 0.75]),
    actions=st.lists(st.one_of(TRAINS, WAITS), max_size=20),
)
def test_a_device_with_absences_delivers_each_ticket_at_most_once_and_never_during_an_absence(
    tmp_path_factory: pytest.TempPathFactory,
    trace: AvailabilityTrace,
    timetable: SeededTimetable,
    policy: str,
    pace: float | None,
    cost: float,
    late: float,
    lead: float,
    ahead: float,
    actions: list[tuple[str, float, int]],
) -> None:
    bench = bench_of(
        tmp_path_factory.mktemp("away"),
        trace,
        timetable,
        cost=cost,
        late=late,
        lead=lead,
        ahead=ahead,
        on_drop=policy,
        seconds_per_sample=pace,
        throttle="none" if pace is None else "pace",
    )
    newest = 0
    for what, amount, steps in actions:
        if what == "wait":
            bench.run_until(bench.now + amount)
        else:
            newest += amount == 0
            bench.train(max(1, newest - max(0, int(amount) - 1)), steps=steps)
    bench.run_until(bench.now + 400)

    assert bench.device.state in (State.IDLE, State.SUSPENDED)
    assert bench.device.heartbeat().ticket == 0
    assert len({ticket for ticket, _ in bench.dues}) == len(bench.dues)
    for _, due in bench.dues:
        gone, back = next(trace.absences(due), (due, due))
        assert not gone + 1e-9 < due < back - 1e-9
    for event in bench.events:
        if isinstance(event, (TransferEvent, Suspended, Trained)):
            assert event.obtained >= event.asked - 1e-9
        if isinstance(event, TransferEvent):
            assert (event.absent or 0.0) <= event.asked + 1e-9


@examples(200)
@given(
    trace=stretches(),
    late=st.floats(0.0, 0.49, allow_nan=False),
    lead=st.sampled_from([0.0, 0.125]),
    ahead=st.sampled_from([0.0, 0.75]),
    jobs=st.lists(st.integers(1, 6), min_size=1, max_size=3),
)
def test_a_process_that_wakes_late_changes_no_due_moment_and_a_round_trip_is_the_sum_of_its_parts(
    tmp_path_factory: pytest.TempPathFactory,
    trace: AvailabilityTrace,
    late: float,
    lead: float,
    ahead: float,
    jobs: list[int],
) -> None:
    folder, seen = tmp_path_factory.mktemp("away"), []
    for lateness in (0.0, late):
        bench = bench_of(folder, trace, late=lateness, lead=lead, ahead=ahead, up=Direction(delay=0.5))
        for ticket, steps in enumerate(jobs, 1):
            bench.train(ticket, steps=steps, at=100.0 * ticket, sent=100.0 * ticket)
        bench.run_until(100.0 * len(jobs) + 100.0)
        transfers = bench.of_kind("downloaded") + bench.of_kind("uploaded")
        asked = [(event.sent, event.asked) for event in transfers]
        seen.append((bench.dues, asked, [event.asked for event in bench.of_kind("trained")]))
        parts: dict[int, float] = {}
        for event in bench.events:
            parts[event.ticket] = parts.get(event.ticket, 0.0) + event.asked
        begun = {event.ticket: event.sent for event in bench.of_kind("downloaded")}
        if lateness == 0:
            for ticket, due in bench.dues:
                assert due - begun[ticket] == pytest.approx(parts[ticket])
    assert seen[0] == seen[1]
