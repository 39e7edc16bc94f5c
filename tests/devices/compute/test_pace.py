from __future__ import annotations

from collections.abc import Sequence

import pytest

from devices.compute.pace import Pace
from testbed.history.trace import Miss, Use
from testbed.host.kernel import Usage
from testbed.profile.schema import Phase
from testbed.profile.speed import SteppedCurve

STEADY = SteppedCurve()


def one_sample_a_step(
    started: float,
    seconds: float | None,
    *,
    steps: int = 100,
    curve: SteppedCurve = STEADY,
    usage: Usage | None = None,
    ahead: float = 0.0,
    grain: float = 0.0,
    enforced: bool = True,
) -> Pace:
    return Pace(
        started, seconds, lambda done: done, curve, usage, steps=steps, ahead=ahead, grain=grain, enforced=enforced
    )


def phases(*pairs: tuple[float, float], period: float | None = None) -> SteppedCurve:
    return SteppedCurve([Phase(at=at, speed=speed) for at, speed in pairs], period)


def deadlines(pace: Pace, steps: Sequence[int]) -> list[float]:
    return [pace.deadline(k) for k in steps]


# ---- deadlines


def test_deadlines_are_absolute() -> None:
    pace = one_sample_a_step(10.0, 0.5)
    assert deadlines(pace, range(4)) == [10.0, 10.5, 11.0, 11.5]


def test_a_step_that_misses_its_deadline_does_not_move_the_later_ones() -> None:
    pace = one_sample_a_step(10.0, 0.5)
    pace.finished_step(1, 10.875)
    assert pace.misses == [Miss(1, 0.5, 0.375)]
    assert deadlines(pace, (2, 3)) == [11.0, 11.5]
    pace.finished_step(2, 10.9)  # caught up
    assert pace.misses == [Miss(1, 0.5, 0.375)]


def test_a_step_counts_as_ended_at_its_deadline_or_when_it_was_computed_if_that_was_later() -> None:
    pace = one_sample_a_step(10.0, 0.5)
    pace.finished_step(1, 10.25)
    assert pace.ended(1) == 10.5
    pace.finished_step(2, 11.125)
    assert pace.ended(2) == 11.125


def test_a_short_batch_takes_the_time_of_its_samples() -> None:
    pace = Pace(10.0, 0.5, [0, 4, 6, 10, 12].__getitem__, STEADY, steps=4)
    assert deadlines(pace, range(5)) == [10.0, 12.0, 13.0, 15.0, 16.0]


def test_an_unpaced_device_has_no_deadlines_to_miss() -> None:
    pace = one_sample_a_step(10.0, None)
    assert deadlines(pace, (0, 1, 1000)) == [10.0, 10.0, 10.0]
    pace.finished_step(1, 99.0)
    assert (pace.checks, pace.misses, pace.asked(5)) == (0, [], 0.0)
    assert (pace.ended(1), pace.obtained(12.5)) == (99.0, 2.5)


def test_deadlines_that_are_not_enforced_are_reported_and_not_checked() -> None:
    pace = one_sample_a_step(10.0, 0.5, enforced=False)
    pace.finished_step(1, 10.25)
    assert pace.ended(1) == 10.25  # a quota slows the device, nothing waits for the deadline
    pace.finished_step(2, 12.0)
    assert (pace.asked(2), pace.obtained(pace.ended(2))) == (1.0, 2.0)
    assert (pace.checks, pace.misses) == (0, [])


def test_a_job_gets_ahead_little_by_little() -> None:
    pace = one_sample_a_step(10.0, 1.5, ahead=1.25)
    # scheduled at 10, 11.5, 13, 14.5, 16; a third of the time since 10 earlier, 1.25 at most
    assert [pace.begins(done) for done in range(5)] == pytest.approx([10.0, 11.0, 12.0, 13.25, 14.75])


def test_a_step_that_was_computed_early_ends_at_its_deadline() -> None:
    pace = one_sample_a_step(10.0, 0.5, ahead=0.75)
    pace.finished_step(1, 10.0)
    assert pace.ended(1) == 10.5


# ---- a speed that changes


def test_a_schedule_stretches_the_steps_that_fall_into_a_slow_phase() -> None:
    pace = one_sample_a_step(10.0, 0.5, curve=phases((11.0, 0.5), (14.0, 2.0)))
    assert deadlines(pace, range(9)) == [10.0, 10.5, 11.0, 12.0, 13.0, 14.0, 14.25, 14.5, 14.75]
    assert pace.asked(5) == 4.0


def test_a_step_across_the_change_takes_part_of_its_time_from_each_phase() -> None:
    pace = one_sample_a_step(10.0, 1.0, curve=phases((10.5, 0.25)))
    assert pace.deadline(1) == 12.5  # half a step in half a second, the other half at a quarter of the speed


def test_a_schedule_with_a_period_repeats() -> None:
    pace = one_sample_a_step(0.0, 1.0, curve=phases((2.0, 0.5), period=4.0))
    assert deadlines(pace, range(7)) == [0.0, 1.0, 2.0, 4.0, 5.0, 6.0, 8.0]


# ---- suspensions


def test_a_suspension_moves_every_later_deadline_and_is_not_computing() -> None:
    pace = one_sample_a_step(10.0, 0.5)
    pace.suspend(10.0, 13.0)
    assert deadlines(pace, (1, 2)) == [13.5, 14.0]
    assert (pace.asked(2), pace.obtained(14.0)) == (1.0, 1.0)
    pace.finished_step(1, 13.5)
    assert (pace.checks, pace.misses) == (1, [])


def test_a_suspension_in_mid_job_leaves_the_steps_that_were_done() -> None:
    pace = one_sample_a_step(10.0, 0.5)
    pace.finished_step(1, 10.5)
    pace.suspend(10.5, 11.5)
    pace.suspend(11.5, 12.0)
    assert deadlines(pace, (1, 2, 3)) == [12.0, 12.5, 13.0]


def test_lateness_before_a_suspension_is_not_forgiven_by_it() -> None:
    pace = one_sample_a_step(10.0, 0.5)
    pace.finished_step(1, 10.75)
    pace.suspend(pace.ended(1), 12.75)  # two seconds
    assert pace.deadline(2) == 13.0


def test_after_a_suspension_the_speed_is_that_of_the_schedule_then() -> None:
    pace = one_sample_a_step(10.0, 1.0, curve=phases((12.0, 2.0)))
    pace.finished_step(1, 11.0)
    pace.suspend(11.0, 13.0)  # the slow second from 11 to 12 falls into it
    assert deadlines(pace, (2, 3)) == [13.5, 14.0]
    assert (pace.asked(3), pace.obtained(14.0)) == (2.0, 2.0)


def test_a_suspension_in_a_slow_phase_leaves_the_steps_that_were_done() -> None:
    pace = one_sample_a_step(10.0, 0.5, curve=phases((11.0, 0.5)))
    pace.finished_step(3, 12.0)
    pace.suspend(12.0, 14.0)
    assert deadlines(pace, (3, 4)) == [14.0, 15.0]


def test_nothing_is_computed_ahead_of_the_end_of_a_suspension() -> None:
    pace = one_sample_a_step(10.0, 1.5, ahead=5.0)
    pace.suspend(10.0, 13.0)
    assert (pace.begins(0), pace.begins(1)) == pytest.approx((13.0, 14.0))  # 14.5 − 1.5/3


# ---- checks and misses


def test_without_a_grain_every_step_is_checked() -> None:
    pace = one_sample_a_step(0.0, 1.0, steps=3)
    for step, moment in ((1, 0.01), (2, 2.25), (3, 3.125)):
        pace.finished_step(step, moment)
    assert pace.checks == 3
    assert pace.misses == [Miss(2, 1.0, 0.25), Miss(3, 1.0, 0.125)]


def checked_at(pace: Pace, steps: int) -> list[int]:
    found = []
    for step in range(1, steps + 1):
        before = pace.checks
        pace.finished_step(step, pace.deadline(step))
        found += [step] * (pace.checks - before)
    return found


@pytest.mark.parametrize(
    ("steps", "seconds", "checked"),
    [
        (3, 1.0, [1, 2, 3]),
        (10, 0.25, [4, 10]),  # 8 would leave less than a grain to the last
        (12, 0.25, [4, 8, 12]),
        (3, 0.25, [3]),
        (1, 0.25, [1]),
        (2, 3.0, [1, 2]),
    ],
)
def test_deadlines_closer_than_a_grain_are_checked_together_and_the_last_one_always(
    steps: int, seconds: float, checked: list[int]
) -> None:
    assert checked_at(one_sample_a_step(0.0, seconds, steps=steps, grain=1.0), steps) == checked


def test_a_late_step_between_two_checks_is_no_miss_if_the_next_deadline_is_met() -> None:
    pace = one_sample_a_step(0.0, 0.25, steps=4, grain=1.0)
    pace.finished_step(1, 0.5)
    for step in (2, 3, 4):
        pace.finished_step(step, 0.25 * step)
    assert (pace.checks, pace.misses) == (1, [])


def test_a_miss_names_its_check_and_the_seconds_asked_since_the_check_before() -> None:
    pace = one_sample_a_step(0.0, 0.25, steps=10, grain=1.0)
    for step in range(1, 10):
        pace.finished_step(step, 0.25 * step)
    pace.finished_step(10, 2.75)
    assert pace.misses == [Miss(2, 1.5, 0.25)]


def test_the_seconds_asked_of_a_check_do_not_include_a_suspension() -> None:
    pace = one_sample_a_step(0.0, 1.0, steps=3)
    pace.finished_step(1, 1.0)
    pace.suspend(1.0, 6.0)
    pace.finished_step(2, 7.5)
    assert pace.misses == [Miss(2, 1.0, 0.5)]


# ---- the counters of the kernel


def test_use_is_counted_from_the_start_of_the_job() -> None:
    pace = one_sample_a_step(0.0, 1.0, usage=Usage(5.0, 2.0))
    pace.finished_step(1, 0.5, Usage(5.25, 2.0))
    pace.finished_step(2, 1.5, Usage(5.5, 2.125))
    assert pace.use() == Use(cpu=0.5, waited=0.125, stolen=0.0)


def test_waiting_for_a_core_is_stolen_time_only_where_it_cost_a_deadline() -> None:
    pace = one_sample_a_step(0.0, 1.0, usage=Usage(0.0, 0.0))
    pace.finished_step(1, 0.9, Usage(0.25, 0.5))
    pace.finished_step(2, 2.5, Usage(0.5, 1.75))
    pace.finished_step(3, 2.9, Usage(0.75, 2.0))
    assert pace.use() == Use(cpu=0.75, waited=2.0, stolen=1.25)


def test_stolen_time_counts_from_the_check_before() -> None:
    pace = one_sample_a_step(0.0, 0.5, steps=4, grain=1.0, usage=Usage(0.0, 0.0))
    for step, moment, waited in ((1, 0.5, 0.25), (2, 1.0, 0.5), (3, 2.0, 1.0), (4, 2.5, 1.125)):
        pace.finished_step(step, moment, Usage(0.0, waited))
    assert (pace.checks, pace.misses) == (2, [Miss(2, 1.0, 0.5)])
    assert pace.use() == Use(cpu=0.0, waited=1.125, stolen=0.625)  # since step 2


@pytest.mark.parametrize("first", [None, Usage(1.0, 1.0)])
def test_without_the_counters_of_the_kernel_no_use_is_reported(first: Usage | None) -> None:
    pace = one_sample_a_step(0.0, 1.0, usage=first)
    pace.finished_step(1, 2.0, None)
    assert pace.use() is None
    assert len(pace.misses) == 1


# ---- an absence in the middle of a step


def test_a_step_that_was_under_way_when_an_absence_began_ends_after_it() -> None:
    pace = one_sample_a_step(10.0, 0.5, ahead=1.0)
    pace.finished_step(1, 10.1)
    pace.finished_step(2, 10.4)
    pace.suspend(10.625, 20.0)
    assert (pace.ended(2), pace.deadline(3), pace.asked(3)) == (20.375, 20.875, 1.5)


def test_a_step_that_was_computed_during_an_absence_counts_from_its_end() -> None:
    pace = one_sample_a_step(10.0, 0.5)
    pace.finished_step(1, 10.75)  # a quarter of a second late, and after the absence began
    pace.suspend(10.625, 20.0)
    assert (pace.ended(1), pace.misses) == (20.0, [Miss(1, 0.5, 0.25)])
    late = one_sample_a_step(10.0, 0.5)
    late.finished_step(1, 10.75)
    late.suspend(10.625, 10.6875)  # back before it was computed
    assert late.ended(1) == 10.75


def test_an_unpaced_step_begins_when_the_one_before_it_has_ended() -> None:
    pace = one_sample_a_step(10.0, None)
    assert pace.begins(0) == 10.0
    pace.finished_step(1, 10.375)
    assert pace.begins(1) == 10.375
    pace.suspend(10.375, 12.0)
    assert pace.begins(1) == 12.0
