"""A job as the local training of a user's own task sees it (docs/own-training.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from testbed.learning.data.dataset import Indices
from testbed.wire.training_job import Job

if TYPE_CHECKING:
    import torch
    from torch import nn

Batch = Callable[[Indices], "tuple[torch.Tensor, torch.Tensor]"]


def drawn_batches(samples: Indices, job: Job, rng: np.random.Generator, least: int = 1) -> Iterator[Indices]:
    """Yield batches without end: without replacement, epoch after epoch. The last batch of an epoch may be smaller.

    ``least``: the fewest samples of a batch; a smaller one also has those that were drawn just before it.
    """
    size = job.samples_per_batch(len(samples))
    while True:
        order = rng.permutation(samples)
        for start in range(0, len(order), size):
            end = min(start + size, len(order))
            yield order[start:end] if end - start >= least else np.resize(order[max(0, end - least) :], least)


@dataclass(frozen=True, kw_only=True)
class LocalJob:
    """What one job works on. The network has the model that the device was sent; training changes it in place."""

    network: nn.Module
    job: Job
    """The keys of ``[training]``, which a strategy may have changed for this job."""
    device: int
    """The place of the device in the fleet, from 0."""
    number: int
    """How many jobs the device was sent before."""
    samples: Indices
    """The training samples of the device: their places in the training data."""
    rng: np.random.Generator
    """Seeded for this job. The generators of torch, numpy and ``random`` are seeded for it, too."""
    memory: dict[str, Any]
    """What the last job of this device that counted left here, and what this one leaves: copied from job to job."""
    least_batch: int = 1
    """Samples that a batch needs: two, if batch normalisation fails with a single one."""
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    batch: Batch
    """Inputs and targets of some samples, as tensors."""

    def batches(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield inputs and targets of each batch of the job: without replacement, epoch after epoch."""
        drawn = drawn_batches(self.samples, self.job, self.rng, self.least_batch)
        for _ in range(self.job.batches_over(len(self.samples))):
            yield self.batch(next(drawn))

    def lr(self, batch: int) -> float:
        """Return the learning rate of a batch of the job, from 0."""
        return self.job.lr_at(batch, len(self.samples), self.number)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, place: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return one sample: a job is a data set for ``torch.utils.data.DataLoader``."""
        if not 0 <= place < len(self.samples):
            raise IndexError(place)
        inputs, targets = self.batch(self.samples[place : place + 1])
        return inputs[0], targets[0]
