"""The script of an experiment and its effects on a device, on the manual clock.

A job is a download of 0.25 s, four steps of 0.5 s and an upload of 0.5 s. Vectors have 16 bytes: 128 bits, so that they
take a second at 128 bit/s.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devices.link import transfer
from devices.work import State
from testbed.emulation.faults import SeededTimetable, TransferFate
from testbed.emulation.poison import Poison
from testbed.history.trace import TransferEvent
from testbed.profile.schema import Direction, Phase, ScriptedEvent
from testbed.traces import rate
from testbed.traces.rate import RateTrace
from tests.devices.parts import LOST, SMOOTH, Bench, FixedTimetable
from tests.devices.test_device import SUSPENSION, Remote
from tests.properties import examples

SLOW = Direction(mbit=128e-6, delay=0.25)
"""A second for a vector, and a quarter of a second of delay."""


def event(at: float, do: str, seconds: float | None = None, value: float | None = None) -> ScriptedEvent:
    return ScriptedEvent(at=at, device="rpi-1", do=do, seconds=seconds, value=value)


def scripted(*events: ScriptedEvent, timetable: Any = None, **changes: Any) -> Bench:
    return Bench(timetable, script=events, **changes)


def scripted_events(bench: Bench) -> list[tuple[float, str, float | None, float | None]]:
    keys = ("t", "do", "seconds", "value")
    return [tuple(getattr(event, key) for key in keys) for event in bench.of_kind("scripted")]  # type: ignore[misc]


# ---- suspend


@pytest.mark.parametrize(
    ("at", "due"),
    [
        (0.5, 8.75),  # before it has a job: all of it comes later
        (3.125, 8.75),  # in the download, of which an eighth of a second is left
        (4.0, 8.75),  # in the training
        (5.5, 8.75),  # in the upload
        (5.75, 5.75),  # at the end of the upload
    ],
)
def test_a_device_is_suspended_in_any_part_of_its_job(at: float, due: float) -> None:
    seconds = 5.5 if at == 0.5 else 3.0  # from 0.5 to 6: the download begins then
    bench = scripted(event(at, "suspend", seconds))
    bench.train(1, at=3.0)
    bench.run_until(max(at, 3.0) + 0.125)
    assert bench.device.state is State.SUSPENDED
    bench.run_until(20.0)
    assert bench.dues == [(1, due)]
    assert scripted_events(bench) == [(at, "suspend", seconds, None)]
    [suspension] = bench.of_kind("suspended")
    assert (suspension.t, suspension.asked, suspension.obtained) == (at + seconds, seconds, seconds)
    [trained] = bench.of_kind("trained")
    assert (trained.asked, trained.obtained, trained.misses) == (2.0, 2.0, [])


def test_an_idle_device_is_suspended_too() -> None:
    bench = scripted(event(2.0, "suspend", 3.0))
    assert bench.device.due() == 2.0
    bench.run_until(4.0)
    assert (bench.device.state, bench.device.due(), bench.device.heartbeat().state) == (
        State.SUSPENDED,
        5.0,
        "suspended",
    )
    bench.run_until(6.0)
    assert (bench.device.state, bench.device.due()) == (State.IDLE, float("inf"))


def test_a_device_suspended_by_signal_is_frozen_until_it_dies_at_the_latest() -> None:
    bench = scripted(event(2.0, "suspend", 3.0), event(4.0, "kill"), suspend_by="signal")
    bench.run_until(3.0)
    assert bench.device.frozen_until == 4.0


def test_a_scripted_suspension_within_one_of_the_timetable_counts_from_its_end() -> None:
    bench = scripted(event(4.0, "suspend", 3.0), timetable=FixedTimetable(suspensions={0: SUSPENSION}))
    bench.train(1, at=1.0)  # suspended from 2.25 to 5.25, and until 7
    bench.run_until(20.0)
    assert bench.dues == [(1, 8.5)]


# ---- speed


@pytest.mark.parametrize(
    ("events", "ended"),
    [
        ([event(1.25, "speed", value=0.5)], 3.25),  # two of its four steps take a second
        ([event(1.25, "speed", 1.0, 0.5)], 2.75),  # one of them does
        ([event(1.0, "speed", 1.0, 0.5)], 2.75),  # in the middle of a step
        ([event(0.0, "speed", value=2.0)], 1.25),
        ([event(1.25, "speed", value=0.5), event(2.25, "speed", value=2.0)], 2.5),  # one is slow, one takes a quarter
    ],
)
def test_the_deadlines_of_the_present_job_move_with_the_speed(events: list[ScriptedEvent], ended: float) -> None:
    bench = scripted(*events)
    bench.train(1)  # work begins at 0.25
    bench.run_until(10.0)
    [trained] = bench.of_kind("trained")
    assert (trained.t, trained.asked, trained.obtained) == (ended, ended - 0.25, ended - 0.25)
    assert bench.dues == [(1, ended + 0.5)]
    assert scripted_events(bench) == [(each.at, "speed", each.seconds, each.value) for each in events]


def test_a_schedule_and_a_script_multiply() -> None:
    bench = scripted(event(1.25, "speed", value=0.5), schedule=(Phase(at=2.25, speed=0.5),))
    bench.train(1)  # two steps of half a second, one of a second, one of two
    bench.run_until(10.0)
    assert bench.of_kind("trained")[0].t == 4.25


# ---- rate


@pytest.mark.parametrize(
    ("events", "asked"),
    [
        ([], 1.25),
        ([event(0.0, "rate", value=0.5)], 2.25),
        ([event(10.0, "rate", value=2.0)], 0.75),
        ([event(10.5, "rate", value=0.25)], 2.75),  # half of it at a quarter of the rate
        ([event(10.5, "rate", 1.0, 0.25)], 2.0),  # half, a quarter of a half in a second, a quarter
        ([event(10.5, "rate", value=0.25), event(11.5, "rate", value=0.125)], 3.75),
        ([event(10.5, "suspend", 3.0), event(10.25, "rate", 3.0, 0.5)], 4.375),  # 1/4; 1/8 until the suspension; 5/8
        ([event(11.125, "rate", value=0.01)], 1.25),  # all bytes are sent: the delay does not change
    ],
)
@pytest.mark.parametrize("up", [True, False])
def test_a_transfer_under_way_moves_at_the_rate_of_the_moment(
    events: list[ScriptedEvent], asked: float, up: bool
) -> None:
    ordered = sorted(events, key=lambda each: each.at)
    links = {"up": SLOW, "down": Direction()} if up else {"up": Direction(), "down": SLOW}
    bench = scripted(*ordered, **links, seconds_per_sample=1 / 128)
    bench.train(1, at=9.0 if up else 10.0, steps=4)  # a second of training
    bench.run_until(40.0)
    [event] = bench.of_kind("uploaded" if up else "downloaded")
    assert (event.sent, event.asked, event.obtained) == (10.0, pytest.approx(asked), pytest.approx(asked))


def test_a_rate_is_a_multiple_of_the_rate_of_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "rate.csv"
    rate.write(path, RateTrace([0.0, 2.0], [128e-6, 64e-6], 100.0))
    link = Direction(trace=str(path), trace_offset=0.0)
    phases = (Phase(at=1.0, speed=0.5), Phase(at=4.0, speed=1.0))
    # 16 bytes by 1, 8 more by 2, 8 more at a quarter by 4, the last 8 in a second
    result = transfer(link, 40, SMOOTH, 0.0, rates=phases)
    assert result.due == pytest.approx(5.0)


# ---- poison


def test_updates_whose_computing_ends_while_a_poison_is_in_force_are_falsified() -> None:
    """A job of 2.75 s computes from 0.25 to 2.25 s. The delta of job n is full of n."""
    flip = ScriptedEvent(at=12.0, device="rpi-1", do="poison", seconds=15.0, value=3.0, how="sign-flip")
    bench = scripted(flip)
    for ticket, moment in ((1, 0.0), (2, 10.0), (3, 20.0), (4, 30.0)):
        bench.train(ticket, at=moment)
    bench.run_until(40.0)
    assert [update.delta.tolist() for _, update in bench.delivered] == [[0.0] * 4, [-3.0] * 4, [-6.0] * 4, [3.0] * 4]
    assert [(each.t, each.ticket, each.how, each.factor) for each in bench.of_kind("poisoned")] == [
        (12.25, 2, "sign-flip", 3.0),
        (22.25, 3, "sign-flip", 3.0),
    ]
    [recorded] = bench.of_kind("scripted")
    assert (recorded.t, recorded.do, recorded.seconds, recorded.value, recorded.how) == (
        12.0, "poison", 15.0, 3.0, "sign-flip"
    )  # fmt: skip


def test_a_recorded_poison_is_repeated_whatever_the_script_says() -> None:
    bench = Bench(FixedTimetable(poisons={1: Poison("scaled", 10.0)}))
    for ticket, moment in ((1, 0.0), (2, 10.0), (3, 20.0)):
        bench.train(ticket, at=moment)
    bench.run_until(30.0)
    assert [update.delta[0] for _, update in bench.delivered] == [0.0, 10.0, 2.0]
    assert [each.ticket for each in bench.of_kind("poisoned")] == [2]


# ---- drop


def test_a_change_of_the_loss_keeps_the_draw() -> None:
    fates = {(job, 0): TransferFate(dropped=False, delay_noise=0.0, rate_noise=0.0, chance=0.3) for job in range(4)}
    script = FixedTimetable(uploads=fates, downloads=fates)
    bench = scripted(
        event(9.0, "drop", 11.0, 0.25), event(29.0, "drop", value=0.5), timetable=script, on_drop="give_up"
    )
    for ticket, moment in ((1, 0.0), (2, 10.0), (3, 20.0), (4, 30.0)):
        bench.train(ticket, at=moment)
    bench.run_until(40.0)
    transfers = [(event.ticket, event.dropped) for event in bench.of_kind("downloaded")]
    assert transfers == [(1, False), (2, False), (3, False), (4, True)]
    assert [ticket for ticket, _ in bench.dues] == [1, 2, 3]


def test_a_change_of_the_loss_affects_transfers_that_begin_while_it_lasts() -> None:
    fate = TransferFate(dropped=False, delay_noise=0.0, rate_noise=0.0, chance=0.3)
    script = FixedTimetable(uploads={(0, 0): fate, (0, 1): fate, (0, 2): fate}, downloads={(0, 0): fate})
    bench = scripted(event(2.25, "drop", 0.75, 0.5), timetable=script)
    bench.train(1)  # uploads at 2.25 and 2.75 are lost, that at 3.25 is not
    bench.run_until(10.0)
    assert [event.dropped for event in bench.of_kind("uploaded")] == [True, True, False]


def test_a_recorded_loss_is_repeated_whatever_the_script_says() -> None:
    bench = scripted(event(0.0, "drop", value=0.0), timetable=FixedTimetable(uploads={(0, 0): LOST}))
    bench.train(1)
    bench.run_until(10.0)
    assert [event.dropped for event in bench.of_kind("uploaded")] == [True, False]


# ---- kill


def test_a_device_that_is_killed_in_its_training_does_nothing_more() -> None:
    bench = scripted(event(2.0, "kill"))
    bench.train(1, at=1.0)
    bench.run_until(20.0)
    assert bench.times == [("downloaded", 1.25), ("abandoned", 2.0)]
    assert (bench.of_kind("abandoned")[0].seconds, bench.training.closed) == (0.75, [0])
    assert (bench.device.state, bench.device.due(), bench.delivered) == (State.KILLED, float("inf"), [])
    bench.train(2)
    bench.run_until(30.0)
    heartbeat = bench.device.heartbeat()
    assert (heartbeat.state, heartbeat.ticket, heartbeat.trains, heartbeat.events) == ("killed", 0, 1, ())


@pytest.mark.parametrize("late", [0.0, 0.1875])
@pytest.mark.parametrize(("died", "delivered"), [(3.75, [(1, 3.75)]), (3.6875, []), (3.125, []), (1.125, [])])
def test_only_an_update_that_was_due_before_the_death_is_sent_ahead(
    died: float, delivered: list[tuple[int, float]], late: float
) -> None:
    bench = scripted(event(died, "kill"), lead=0.125, ahead=0.5, late=late)
    bench.train(1, at=1.0, sent=1.0)
    bench.run_until(20.0)
    assert bench.dues == delivered
    assert all(event.t <= died + late for event in bench.events)


def test_a_device_that_is_killed_in_a_suspension_reports_how_long_it_lasted() -> None:
    bench = scripted(event(2.0, "suspend", 100.0), event(5.0, "kill"))
    bench.train(1, at=1.0)
    bench.run_until(20.0)
    assert bench.times == [("downloaded", 1.25), ("scripted", 2.0), ("suspended", 5.0), ("abandoned", 5.0)]
    assert bench.of_kind("abandoned")[0].seconds == 0.75


def test_the_job_of_a_worker_is_closed_at_the_death() -> None:
    remote = Remote()
    bench = scripted(event(2.0, "kill"), throttle="cgroup", trainer=remote)
    bench.train(1, at=1.0)
    bench.run_until(20.0)
    assert remote.begun[0].calls == ["close"]


# ---- rejoining


def test_a_device_that_rejoins_counts_its_jobs_from_the_number_in_the_train() -> None:
    bench = scripted(event(2.0, "kill"), event(10.0, "rejoin"), begins=10.0)
    bench.jobs_before = 7
    bench.now = 10.0
    bench.train(5)
    bench.run_until(20.0)
    assert bench.training.begun == [(7, 4)]
    assert [event.job for event in bench.events if isinstance(event, TransferEvent)] == [7, 7]
    assert bench.dues == [(5, 12.75)]


def test_a_device_that_rejoins_has_the_changes_in_force_but_not_the_suspension_in_which_it_died() -> None:
    events = (event(1.0, "suspend", 100.0), event(2.0, "kill"), event(3.0, "speed", value=0.5), event(10.0, "rejoin"))
    bench = scripted(*events, begins=10.0)
    bench.now = 10.0
    bench.train(1)
    bench.run_until(20.0)
    assert scripted_events(bench) == [(10.0, "speed", None, 0.5)]
    assert bench.dues == [(1, 14.75)]  # four steps of a second


# ---- random scripts


def events_of(draw: st.DrawFn) -> list[ScriptedEvent]:
    moments = st.integers(0, 400).map(lambda eighths: eighths / 8)
    lengths = st.integers(1, 80).map(lambda eighths: eighths / 8)
    found = [event(draw(moments), "suspend", draw(lengths)) for _ in range(draw(st.integers(0, 3)))]
    for do, values in (("speed", (0.5, 2.0)), ("rate", (0.25, 2.0)), ("drop", (0.0, 0.5))):
        at = draw(st.lists(moments, unique=True, max_size=2))
        found += [event(each, do, draw(st.none() | lengths), draw(st.sampled_from(values))) for each in at]
    if draw(st.booleans()):
        found.append(event(60.0, "kill"))
    return sorted(found, key=lambda each: each.at)


SCRIPTS = st.composite(events_of)()


@examples(200)
@given(
    events=SCRIPTS,
    late=st.sampled_from([0.0, 0.0625]),
    lead=st.sampled_from([0.0, 0.125]),
    ahead=st.sampled_from([0.0, 0.75]),
    jobs=st.lists(st.integers(1, 6), min_size=1, max_size=4),
)
def test_a_process_that_wakes_late_changes_no_due_moment_and_nothing_is_due_after_the_death(
    events: list[ScriptedEvent], late: float, lead: float, ahead: float, jobs: list[int]
) -> None:
    seen = []
    timetable = SeededTimetable(seed=3, device=0, upload_drop=0.2)
    for lateness in (0.0, late):
        bench = scripted(*events, timetable=timetable, late=lateness, lead=lead, ahead=ahead, up=SLOW)
        for ticket, steps in enumerate(jobs, 1):
            bench.train(ticket, steps=steps, at=20.0 * ticket, sent=20.0 * ticket)
        bench.run_until(3000.0)
        dead = [each.at for each in events if each.do == "kill"]
        assert bench.device.state is (State.KILLED if dead else State.IDLE)
        assert all(due <= moment for _, due in bench.dues for moment in dead)
        assert len({ticket for ticket, _ in bench.dues}) == len(bench.dues)
        awake = [each for each in events if each.do == "suspend"]
        for _, due in bench.dues:
            assert not any(each.at + 1e-9 < due < each.at + (each.seconds or 0) - 1e-9 for each in awake)
        seen.append(bench.dues)
    assert [ticket for ticket, _ in seen[0]] == [ticket for ticket, _ in seen[1]]
    np.testing.assert_allclose([due for _, due in seen[0]], [due for _, due in seen[1]])
