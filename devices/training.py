"""Local SGD as a generator of steps, so that it can be paced, suspended and abandoned between any two."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np
import numpy.typing as npt
import torch

from testbed.messages import Job, Vector
from testbed.tasks.task import Task


def local_sgd(
    task: Task, shard: npt.NDArray[np.int64], job: Job, base: Vector, rng: np.random.Generator
) -> Generator[float, None, Vector]:
    """Train from ``base`` on ``shard``: yields the loss of each step, returns delta = local model − base.

    Works on the flat vectors directly. ``torch.optim`` would do the same per parameter tensor, and its first use
    imports ``torch._dynamo`` — seconds and megabytes in every device process.
    """
    torch.default_generator.manual_seed(int(rng.integers(2**63)))  # dropout and the like: seeded with the batches
    model = task.model
    model.load(base)
    start = model.vector.clone() if job.proximal else None
    velocity: torch.Tensor | None = None
    batches = _batches(shard, job.batch, rng)
    for number in range(job.steps_over(len(shard))):
        loss = task.gradient(next(batches))
        step = model.gradient
        if start is not None:
            step.add_(model.vector - start, alpha=job.proximal)
        if job.momentum:
            velocity = step.clone() if velocity is None else velocity.mul_(job.momentum).add_(step)
            step = velocity
        model.vector.add_(step, alpha=-job.lr_at(number, len(shard)))
        yield loss
    delta: Vector = np.subtract(model.vector.numpy(), base)
    return delta


def _batches(shard: npt.NDArray[np.int64], size: int, rng: np.random.Generator) -> Iterator[npt.NDArray[np.int64]]:
    """Mini-batches without replacement, epoch after epoch; the last of an epoch may be short."""
    while True:
        order = rng.permutation(shard)
        for start in range(0, len(order), size):
            yield order[start : start + size]
