"""Local steps that belong to no job: they warm a process up, tell how long a step takes, and let the canary compute.

They come from one endless job over all samples. A task that trains itself repeats a job of one device instead, with the
steps or epochs of the profile, because its own code may count them; a job that is computed as a whole is shortened.
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


def trial_steps(task: Task, job: Job, samples: int, device: int | None = None) -> Iterator[float]:
    """Yield the losses of steps of ``samples`` samples, without end.

    ``device``: whose samples are used; None: those of all devices, or of the device that has most, or as many.
    """
    if not task.trains_itself and not job.whole:
        everything = np.arange(task.training_samples, dtype=np.int64) if device is None else task.shards[device]
        yield from _job(task, replace(job, steps=_ENDLESS, epochs=0, batch=samples), 0, everything)
        return
    if device is None and task.step_sizes is not None:
        device = task.device_of(samples)
    elif device is None:
        device = max(range(len(task.shards)), key=lambda index: len(task.shards[index]))
    shard = task.shards[device]
    if not job.whole:
        job = replace(job, batch=samples)
    elif job.epochs:
        shard = shard[: max(1, round(samples / job.epochs))]
    else:
        steps = -(-samples // job.samples_per_batch(len(shard)))
        job = replace(job, steps=steps, batch=max(1, round(samples / steps)))
    while True:
        yield from _job(task, job, device, shard)


def _job(task: Task, job: Job, device: int, samples: Indices) -> Iterator[float]:
    rng = np.random.default_rng(0)
    work = VectorJob(base=task.initial(), job=job, device=device, number=0, samples=samples, rng=rng, memory={})
    return training(task, work)
