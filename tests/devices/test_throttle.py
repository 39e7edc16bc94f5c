from __future__ import annotations

from devices.throttle import Pace


def one_sample_a_step(started: float, seconds: float | None) -> Pace:
    return Pace(started, seconds, lambda steps: steps)


def test_deadlines_are_absolute() -> None:
    pace = one_sample_a_step(10.0, 0.5)
    assert [pace.deadline(k) for k in range(4)] == [10.0, 10.5, 11.0, 11.5]


def test_a_step_that_misses_its_deadline_does_not_move_the_later_ones() -> None:
    pace = one_sample_a_step(10.0, 0.5)
    pace.finished_step(1, 10.875)
    assert pace.late == 0.375
    assert [pace.deadline(k) for k in (2, 3)] == [11.0, 11.5]
    pace.finished_step(2, 10.9)  # caught up
    assert pace.late == 0.375


def test_late_is_the_worst_miss_and_never_negative() -> None:
    pace = one_sample_a_step(0.0, 1.0)
    pace.finished_step(1, 0.01)
    assert pace.late == 0.0
    pace.finished_step(2, 2.25)
    pace.finished_step(3, 3.125)
    assert pace.late == 0.25


def test_a_suspension_moves_every_later_deadline_and_is_not_computing() -> None:
    pace = one_sample_a_step(10.0, 0.5)
    pace.held += 3.0
    assert pace.deadline(1) == 13.5
    assert pace.obtained(14.0) == 1.0
    assert pace.asked(2) == 1.0
    pace.finished_step(1, 13.5)
    assert pace.late == 0.0


def test_an_unpaced_device_has_no_deadlines_to_miss() -> None:
    pace = one_sample_a_step(10.0, None)
    assert [pace.deadline(k) for k in (0, 1, 1000)] == [10.0, 10.0, 10.0]
    pace.finished_step(1, 99.0)
    assert (pace.late, pace.asked(5)) == (0.0, 0.0)
    assert pace.obtained(12.5) == 2.5


def test_a_short_batch_takes_the_time_of_its_samples() -> None:
    pace = Pace(10.0, 0.5, [0, 4, 6, 10, 12].__getitem__)
    assert [pace.deadline(k) for k in range(5)] == [10.0, 12.0, 13.0, 15.0, 16.0]
