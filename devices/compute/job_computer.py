"""Computes a job as its device does, as a whole and at once: the same samples, batches and steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from devices.compute.job_steps import steps_of_job
from devices.compute.kept_memory import JobTickets, KeptMemory
from devices.compute.trainer import Stepwise, complete, mean_loss
from testbed.learning.training.task import Task
from testbed.wire.messages import Vector
from testbed.wire.training_job import Job


class JobComputer:
    """Computes the jobs of a fleet one after another: all devices of this process share one network."""

    def __init__(self, task: Task, seed: int, indices: Mapping[str, int]) -> None:
        """``indices``: name of each device → its place in the fleet."""
        self._task, self._seed, self._indices = task, seed, indices
        self._kept: defaultdict[str, KeptMemory] = defaultdict(KeptMemory)
        self.computed = 0
        """Jobs so far."""

    def samples(self, device: str) -> int:
        """Training samples of a device."""
        return len(self._task.shards[self._indices[device]])

    def restart(self, device: str) -> None:
        """Begin with a new process of a device, which has kept nothing."""
        self._kept.pop(device, None)

    def compute(
        self, device: str, number: int, base: Vector, job: Job, tickets: JobTickets
    ) -> tuple[Vector, float | None]:
        """Return the delta and the mean loss of the device's job ``number`` on the model ``base``."""
        delta, losses = self.compute_sum(device, number, base, job, tickets)
        return delta, mean_loss(losses, job.steps_over(self.samples(device)))

    def compute_sum(
        self, device: str, number: int, base: Vector, job: Job, tickets: JobTickets
    ) -> tuple[Vector, float]:
        """Return the delta of a job and the sum of its losses."""
        self.computed += 1
        index, kept = self._indices[device], self._kept[device]
        steps = steps_of_job(self._task, self._seed, index, job, base, number, tickets, kept)
        return complete(Stepwise(steps), job.steps_over(self.samples(device)))
