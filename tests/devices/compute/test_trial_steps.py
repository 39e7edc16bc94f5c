from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from devices.compute.trial_steps import trial_steps
from testbed.learning.training.local_job import LocalJob
from testbed.learning.training.network_task import NetworkTask
from testbed.wire.training_job import Job
from tests.testbed.learning.training.own_tasks import SAMPLES, task_of


class Noting(NetworkTask):
    """Notes the samples of each gradient."""

    def gradient(self, samples: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
        self.__dict__.setdefault("noted", []).append(samples.tolist())
        return super().gradient(samples)


def noted(job: Job, samples: int, count: int, device: int | None = None) -> list[list[int]]:
    task = task_of(None)
    task.__class__ = Noting
    for _ in itertools.islice(trial_steps(task, job, samples, device), count):
        pass
    found: list[list[int]] = task.__dict__["noted"]
    return found


def test_steps_of_the_default_loop_are_over_all_samples() -> None:
    batches = noted(Job(steps=2), 12, SAMPLES // 12)
    assert [len(batch) for batch in batches] == [12] * 5
    assert sorted(itertools.chain(*batches)) == list(range(SAMPLES))


def test_steps_for_a_device_are_over_its_samples() -> None:
    assert sorted(itertools.chain(*noted(Job(steps=2), 4, 5, device=1))) == list(range(20, 40))


@pytest.mark.parametrize(
    ("job", "samples", "batches"),
    [
        (Job(epochs=2, batch=8, whole=True), 40, [8, 8, 4] * 2),  # two epochs over all 20 samples
        (Job(epochs=2, batch=8, whole=True), 20, [8, 2] * 2),
        (Job(steps=6, batch=8, whole=True), 48, [8, 8, 4] * 2),  # the last batch of an epoch is shorter
        (Job(steps=6, batch=8, whole=True), 12, [6] * 2),
        (Job(steps=6, batch=8, whole=True), 1, [1]),
    ],
)
def test_a_whole_job_is_shortened_to_the_samples(job: Job, samples: int, batches: list[int]) -> None:
    assert [len(batch) for batch in noted(job, samples, 1)] == batches


@pytest.mark.parametrize("job", [Job(steps=3, batch=5), Job(epochs=2, batch=5)])
def test_training_of_the_users_own_sees_the_steps_and_epochs_of_the_profile(job: Job) -> None:
    seen: list[Any] = []

    def own(local: LocalJob) -> Iterator[float]:
        seen.append((local.job.steps, local.job.epochs, local.job.batch, len(local)))
        for _ in local.batches():
            yield 1.0

    steps = job.steps if job.steps and not job.epochs else 2 * 2  # 20 samples in batches of 10
    assert len(list(itertools.islice(trial_steps(task_of(own), job, 10), 2 * steps))) == 2 * steps
    assert seen == [(job.steps, job.epochs, 10, 20)] * 2
