"""What the processes of a run need of a task: one vector for the model, training on devices, scores."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from testbed.learning.data.dataset import Indices
from testbed.wire.messages import Vector
from testbed.wire.training_job import Job

Memory: TypeAlias = dict[str, Any]
"""What training keeps from job to job, by name: anything that can be copied (``devices.compute.kept_memory``)."""


@dataclass(frozen=True, kw_only=True)
class VectorJob:
    """A job: train from ``base`` on the samples of one device."""

    base: Vector
    """Read-only."""
    job: Job
    device: int
    """The place of the device in the fleet, from 0."""
    number: int
    """How many jobs the device was sent before."""
    samples: Indices
    rng: np.random.Generator
    memory: Memory


class Task(ABC):
    """A task that is ready. ``shards``: the training samples of each device, in fleet order."""

    shards: Sequence[Indices]

    trains_itself: bool = False
    """Whether :meth:`train` is defined. If not, devices train its network by the optimiser of the profile."""
    place: str = ""
    """File, line and name of its training, for messages."""
    data_sha256: str = ""
    """A digest of its data; empty if that is not known."""
    work: float = 1.0
    """How many times the FLOPs of the network for which the catalogue of devices has speeds."""
    notes: tuple[str, ...] = ()
    """What a user should know about the task, in sentences."""
    step_sizes: tuple[int, ...] | None = None
    """The samples that a step may have, if a device cannot train on fewer than all it has; None: any number."""
    warm_up_steps: int = 2
    """Steps that a device computes before the run begins."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Numbers in the vector."""

    @property
    @abstractmethod
    def training_samples(self) -> int: ...

    def device_of(self, samples: int) -> int:
        """Return the device whose number of samples is the nearest."""
        return min(range(len(self.shards)), key=lambda device: abs(len(self.shards[device]) - samples))

    @property
    def labels(self) -> list[tuple[int, ...]] | None:
        """Labels of each shard, in order; None if targets are values, or not known."""
        return None

    @abstractmethod
    def initial(self) -> Vector:
        """Return a copy of the initial model."""

    @abstractmethod
    def evaluate(self, vector: Vector) -> dict[str, float]:
        """Return the loss and the other metrics of a model on the test data."""

    def train(self, job: VectorJob) -> Generator[float, None, Vector]:
        """Train: yield the loss of each step of the job, and return the new model."""
        raise NotImplementedError

    def check(self, job: Job) -> None:  # noqa: B027  most tasks can be trained by every job
        """Raise UserError if the devices cannot train by this job."""

    def flops(self) -> tuple[int, int]:
        """Return the FLOPs of one sample (a multiplication and an addition are two): forward, and training.

        0 if they cannot be counted.
        """
        return 0, 0

    def digest(self) -> str:
        """Return a hash of the first model, the partition and the data."""
        found = hashlib.sha256(self.initial().tobytes())
        for shard in self.shards:
            found.update(np.ascontiguousarray(shard).data)
        found.update(self.data_sha256.encode())
        return found.hexdigest()

    @abstractmethod
    def tensors(self, vector: Vector) -> dict[str, npt.NDArray[Any]]:
        """Return the vector as named arrays, for a file."""
