"""Local steps that belong to no job: they warm a process up, tell how long a step takes, and let the canary compute.

A task that trains itself computes whole jobs of a few batches; the others compute one endless job over all samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from devices.compute.job_steps import training
from testbed.learning.data.dataset import Indices
from testbed.learning.training.task import Task, VectorJob
from testbed.wire.training_job import Job

_ENDLESS = 1_000_000
_STEPS = 8
"""Steps of a job of a task that trains itself."""


def trial_steps(task: Task, job: Job, samples: int, device: int | None = None) -> Iterator[float]:
    """Yield the losses of steps of ``samples`` samples, without end.

    ``device``: whose samples are used; None: those of all devices, or, if the task trains itself, those of the device
    that has most.
    """
    if not task.trains_itself and not job.whole:
        everything = np.arange(task.training_samples, dtype=np.int64)
        own = everything if device is None else task.shards[device]
        yield from training(task, _job_over(task, replace(job, steps=_ENDLESS, epochs=0, batch=samples), 0, own))
        return
    if device is None:
        device = max(range(len(task.shards)), key=lambda index: len(task.shards[index]))
    own = task.shards[device]
    batches = -(-samples // job.samples_per_batch(len(own))) if job.whole else _STEPS
    batch = max(1, round(samples / batches)) if job.whole else samples
    # an epoch over one batch is a step, however the task counts
    short = replace(job, batch=batch, steps=batches, epochs=batches if job.epochs else 0)
    while True:
        yield from training(task, _job_over(task, short, device, own[:batch] if job.epochs else own))


def _job_over(task: Task, job: Job, device: int, samples: Indices) -> VectorJob:
    rng = np.random.default_rng(0)
    return VectorJob(base=task.initial(), job=job, device=device, number=0, samples=samples, rng=rng, memory={})
