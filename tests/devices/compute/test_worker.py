"""The worker process: its requests, its answers, and the signals that stop it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

import numpy as np
import psutil
import pytest

from devices.compute.kept_memory import JobTickets
from devices.compute.trainer import Steps
from devices.compute.worker import Worker
from testbed.common.errors import RunFailed
from testbed.wire.messages import Vector
from testbed.wire.training_job import Job

SAMPLES, SIZE = 8, 4
FIRST = JobTickets(1, 0)
PATIENCE = 120.0


def counting(job: Job, base: Vector, number: int, tickets: JobTickets) -> Steps:
    """Losses 1, 2, 3 …; the delta is the model plus the number of the job."""
    for step in range(job.steps):
        yield step + 1.0
    return (base + number).astype(np.float32)


def endless(job: Job, base: Vector, number: int, tickets: JobTickets) -> Steps:
    """Burns CPU, a millisecond a step."""
    while True:
        began = time.thread_time()
        while time.thread_time() - began < 0.001:
            pass
        yield float(number)


@pytest.fixture
def make() -> Iterator[Callable[..., Worker]]:
    made: list[Worker] = []

    def start(begin: Callable[[Job, Vector, int], Steps]) -> Worker:
        made.append(Worker(begin, SAMPLES, SIZE))
        return made[-1]

    yield start
    for worker in made:
        worker.end()
        assert not psutil.pid_exists(worker.pid)


def collect(worker: Worker, count: int) -> list[float]:
    losses: list[float] = []
    limit = time.monotonic() + PATIENCE
    while len(losses) < count:
        losses += worker.losses()
        assert time.monotonic() < limit
    return losses


def model(value: float) -> Vector:
    return np.full(SIZE, value, np.float32)


def test_a_job_gives_its_losses_and_then_its_delta(make: Callable[..., Worker]) -> None:
    worker = make(counting)
    for number in (0, 3):
        worker.begin(Job(steps=5), model(2.0), number, FIRST)
        assert collect(worker, 5) == [1.0, 2.0, 3.0, 4.0, 5.0]
        assert worker.result().tolist() == [2.0 + number] * SIZE


def test_after_a_job_is_replaced_only_the_losses_of_the_new_one_arrive(make: Callable[..., Worker]) -> None:
    worker = make(endless)
    worker.begin(Job(steps=10**6), model(0.0), 1, FIRST)
    assert collect(worker, 2)[:2] == [1.0, 1.0]
    worker.close()
    worker.begin(Job(steps=10**6), model(0.0), 7, FIRST)
    assert set(collect(worker, 5)) == {7.0}


def test_a_loss_that_is_not_finite_arrives_as_nan(make: Callable[..., Worker]) -> None:
    def diverging(job: Job, base: Vector, number: int, tickets: JobTickets) -> Steps:
        yield float("inf")
        return base

    worker = make(diverging)
    worker.begin(Job(steps=1), model(0.0), 0, FIRST)
    [loss] = collect(worker, 1)
    assert np.isnan(loss)


def test_a_worker_that_is_paused_or_throttled_is_stopped_by_the_kernel(make: Callable[..., Worker]) -> None:
    worker = make(endless)
    worker.begin(Job(steps=10**6), model(0.0), 1, FIRST)
    process = psutil.Process(worker.pid)
    for stop, go in (
        (worker.pause, worker.resume),
        (lambda: worker.throttle(True), lambda: worker.throttle(False)),
    ):
        stop()
        os.waitpid(worker.pid, os.WUNTRACED)
        assert process.status() == psutil.STATUS_STOPPED
        go()
        list(worker.losses())  # those from before the stop
        assert collect(worker, 1)


def test_a_worker_that_is_paused_stays_paused_whatever_its_quota_decides(make: Callable[..., Worker]) -> None:
    worker = make(endless)
    worker.begin(Job(steps=10**6), model(0.0), 1, FIRST)
    worker.pause()
    os.waitpid(worker.pid, os.WUNTRACED)
    worker.throttle(True)
    worker.throttle(False)
    assert not worker.is_computing
    assert psutil.Process(worker.pid).status() == psutil.STATUS_STOPPED


def test_a_stopped_worker_can_be_given_many_jobs_without_waiting(make: Callable[..., Worker]) -> None:
    worker = make(counting)
    worker.pause()
    os.waitpid(worker.pid, os.WUNTRACED)
    for number in range(100):
        worker.begin(Job(steps=1), model(1.0), number, FIRST)
    worker.resume()
    collect(worker, 1)
    assert worker.result().tolist() == [100.0] * SIZE


def test_an_exception_in_the_worker_is_raised_in_the_device_with_its_line(make: Callable[..., Worker]) -> None:
    def failing(job: Job, base: Vector, number: int, tickets: JobTickets) -> Steps:
        yield 1.0
        raise ValueError("my own bug")

    worker = make(failing)
    worker.begin(Job(steps=2), model(1.0), 0, FIRST)
    with pytest.raises(RunFailed, match=r"test_worker\.py:\d+, in failing: ValueError: my own bug"):
        collect(worker, 2)


def test_a_worker_ends_with_its_device() -> None:
    reading, writing = os.pipe()
    device = os.fork()
    if device == 0:
        os.write(writing, str(Worker(endless, SAMPLES, SIZE).pid).encode())
        signal.pause()
    worker = psutil.Process(int(os.read(reading, 20)))
    os.kill(device, signal.SIGKILL)
    os.waitpid(device, 0)
    os.close(reading)
    os.close(writing)
    worker.wait(PATIENCE)
    assert not worker.is_running()
