"""Local SGD as a generator of steps, so that it can be paced, suspended and abandoned between any two steps."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np
import numpy.typing as npt
import torch

from devices.compute.trainer import Steps
from testbed.learning.tasks.task import Task
from testbed.wire.messages import Vector
from testbed.wire.training_job import Job


def local_sgd(
    task: Task, shard: npt.NDArray[np.int64], job: Job, base: Vector, rng: np.random.Generator, number: int = 0
) -> Generator[float, None, Vector]:
    """Train from ``base`` on ``shard``. Yields the loss of each step, and returns delta = local model − base.

    ``number`` is how many jobs the device got before: the learning rate may fall from job to job.

    It works on the flat vectors. ``torch.optim`` would do the same for each parameter tensor, but its first use imports
    ``torch._dynamo``, which costs seconds and megabytes in every device process.
    """
    torch.default_generator.manual_seed(int(rng.integers(2**63)))  # for dropout: seeded like the batches
    model = task.model
    model.load(base)
    start = model.vector.clone() if job.proximal else None
    velocity: torch.Tensor | None = None
    batches = _batches(shard, job.samples_per_step(len(shard)), rng)
    for step in range(job.steps_over(len(shard))):
        loss = task.gradient(next(batches))
        direction = model.gradient
        if start is not None:
            direction.add_(model.vector - start, alpha=job.proximal)
        if job.momentum:
            velocity = direction.clone() if velocity is None else velocity.mul_(job.momentum).add_(direction)
            direction = velocity
        model.vector.add_(direction, alpha=-job.lr_at(step, len(shard), number))
        yield loss
    delta: Vector = np.subtract(model.vector.numpy(), base)
    return delta


def steps_of_job(task: Task, seed: int, device: int, job: Job, base: Vector, number: int) -> Steps:
    """The steps of job ``number`` of the device with this index.

    Batches are drawn by the number of the job, so that a job that is repeated or recomputed has the same ones.
    """
    rng = np.random.default_rng([seed, 2, device, number])
    return local_sgd(task, task.shards[device], job, base, rng, number)


def _batches(shard: npt.NDArray[np.int64], size: int, rng: np.random.Generator) -> Iterator[npt.NDArray[np.int64]]:
    """Yield mini-batches without replacement, epoch after epoch. The last batch of an epoch may be smaller."""
    while True:
        order = rng.permutation(shard)
        for start in range(0, len(order), size):
            yield order[start : start + size]
