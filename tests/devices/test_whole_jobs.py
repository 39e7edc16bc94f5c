"""Jobs that are computed as a whole: one deadline, at the end (``Job.whole``). The bench has 128 samples in 2 s."""

from __future__ import annotations

import pytest

from devices.work import State
from testbed.emulation.faults import PlannedSuspension
from testbed.wire.training_job import Job
from tests.devices.parts import Bench, FixedTimetable

WHOLE = Job(epochs=1, batch=32, whole=True)


@pytest.mark.parametrize(
    ("job", "seconds"),
    [
        (WHOLE, 2.0),
        (Job(epochs=3, batch=32, whole=True), 6.0),
        (Job(steps=3, batch=32, whole=True), 1.5),
        (Job(steps=5, batch=100, whole=True), 2 * 2.0 + 100 / 64),
        (Job(steps=2, batch=0, whole=True), 4.0),
    ],
)
def test_a_whole_job_is_one_step_that_takes_as_long_as_its_batches(job: Job, seconds: float) -> None:
    bench = Bench()
    bench.train(1, job=job)
    bench.run_until(30.0)
    [trained] = bench.of_kind("trained")
    assert (trained.steps, trained.asked, trained.checks) == (1, seconds, 1)
    assert bench.deliveries == [(1, 0.25 + seconds + 0.5)]
    assert bench.delivered[0][1].steps == 1


def test_a_suspension_of_a_whole_job_is_before_its_computation_and_moves_its_end() -> None:
    bench = Bench(FixedTimetable(suspensions={0: PlannedSuspension(at=0.5, seconds=3.0)}))
    bench.train(1, job=WHOLE)
    bench.run_until(0.3)
    assert (bench.device.state, bench.device.heartbeat().progress) == (State.SUSPENDED, 0.0)
    bench.run_until(30.0)
    assert bench.times == [("downloaded", 0.25), ("suspended", 3.25), ("trained", 5.25), ("uploaded", 5.75)]


def test_a_whole_job_that_the_host_computes_late_misses_its_one_deadline() -> None:
    bench = Bench(cost=2.5)
    bench.train(1, job=WHOLE)
    bench.run_until(30.0)
    [trained] = bench.of_kind("trained")
    assert [(miss.asked, miss.late) for miss in trained.misses] == [(2.0, 0.5)]
    assert trained.obtained == 2.5


def test_a_new_model_replaces_a_whole_job_that_has_not_been_computed() -> None:
    bench = Bench(FixedTimetable(suspensions={0: PlannedSuspension(at=0.5, seconds=3.0)}))
    bench.train(1, job=WHOLE)
    bench.train(2, job=WHOLE, at=1.0)
    bench.run_until(30.0)
    assert [event.ticket for event in bench.of_kind("abandoned")] == [1]
    assert [ticket for ticket, _ in bench.deliveries] == [2]
