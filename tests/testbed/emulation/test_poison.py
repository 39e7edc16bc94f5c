"""Poisoned updates: what each kind of poison makes of an update, and that the same job has the same noise."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.emulation.faults import RecordedTimetable, SeededTimetable
from testbed.emulation.poison import Poison, poison_at, poisoned
from testbed.emulation.recorded import RecordedJob
from testbed.profile.schema import ScriptedEvent

DELTA = np.array([1.0, -2.0, 0.5], np.float32)
TIMETABLE = SeededTimetable(seed=7, device=3)


def noise(job: int, **changes: int) -> list[float]:
    timetable = SeededTimetable(**{"seed": 7, "device": 3, **changes})
    return poisoned(DELTA, Poison("noise", 1.0), timetable.poison_noise(job)).tolist()


@pytest.mark.parametrize(
    ("how", "factor", "expected"),
    [
        ("sign-flip", 1.0, [-1.0, 2.0, -0.5]),
        ("sign-flip", 4.0, [-4.0, 8.0, -2.0]),
        ("scaled", 10.0, [10.0, -20.0, 5.0]),
        ("scaled", 0.0, [0.0, 0.0, 0.0]),
        ("noise", 0.0, [1.0, -2.0, 0.5]),
    ],
)
def test_a_poison_changes_the_update_by_its_factor(how: str, factor: float, expected: list[float]) -> None:
    sent = DELTA.copy()
    sent.flags.writeable = False  # the trainer may still use it
    result = poisoned(sent, Poison(how, factor), TIMETABLE.poison_noise(0))
    assert (result.tolist(), result.dtype) == (expected, np.float32)


def test_noise_has_the_root_mean_square_of_the_update_times_the_factor() -> None:
    delta = np.full(100_000, -3.0, np.float32)
    added = poisoned(delta, Poison("noise", 2.0), TIMETABLE.poison_noise(0)) - delta
    assert float(np.std(added)) == pytest.approx(6.0, rel=0.02)
    assert float(np.mean(added)) == pytest.approx(0.0, abs=0.1)


def test_noise_is_fixed_by_seed_device_and_number_of_the_job() -> None:
    assert noise(5) == noise(5)
    assert len({tuple(each) for each in (noise(5), noise(6), noise(5, seed=8), noise(5, device=4))}) == 4


def test_a_replay_has_the_poison_of_each_recorded_job_and_the_same_noise() -> None:
    jobs = [RecordedJob(), RecordedJob(poison=Poison("noise", 2.0))]
    replayed = RecordedTimetable(jobs=jobs, end="loop", otherwise=TIMETABLE)
    assert [replayed.poison(job) for job in range(4)] == [None, jobs[1].poison, None, jobs[1].poison]
    assert RecordedTimetable(jobs=jobs, end="stop", otherwise=TIMETABLE).poison(2) is None
    one, other = replayed.poison_noise(3), TIMETABLE.poison_noise(3)
    assert one.random(4).tolist() == other.random(4).tolist()


def test_a_script_poisons_while_its_event_is_in_force() -> None:
    script = (
        ScriptedEvent(at=5.0, device="a", do="poison", seconds=10.0, value=3.0, how="sign-flip"),
        ScriptedEvent(at=8.0, device="a", do="poison", seconds=2.0, value=9.0, how="scaled"),
    )
    flip, scaled = Poison("sign-flip", 3.0), Poison("scaled", 9.0)
    found = [poison_at(script, moment) for moment in (4.9, 5.0, 7.9, 8.0, 9.9, 10.0)]
    assert found == [None, flip, flip, scaled, scaled, None]
    assert poison_at((), 1.0) is None


def test_an_update_that_exceeds_single_precision_becomes_infinite() -> None:
    assert np.isinf(poisoned(np.array([3e38], np.float32), Poison("scaled", 10.0), TIMETABLE.poison_noise(0))).all()
