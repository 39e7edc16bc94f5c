"""The results of jobs on a virtual clock: a job may be computed from its beginning on, and its end needs the result.

A result depends only on the base model, the seed, the device, the number of the job and what the device kept of its
last job (``devices.compute.job_steps``): not on who computes it, nor when.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np

from devices.compute.job_computer import JobComputer
from devices.compute.kept_memory import JobTickets
from testbed.wire.messages import Vector
from testbed.wire.training_job import Job

Result: TypeAlias = Callable[[], tuple[Vector, float]]
"""Returns the delta of a job and the sum of its losses, computed by then."""


class JobResults(Protocol):
    """Computes the jobs of a fleet."""

    def begin(self, device: str, job: Job, base: Vector, number: int, tickets: JobTickets) -> Result:
        """Begin a job, perhaps."""
        ...

    def restart(self, device: str) -> None:
        """Begin with a new process of a device, which has kept nothing."""
        ...


class ComputedHere:
    """Computes a job in this process when its result is needed. A job without effect is never computed."""

    def __init__(self, computer: JobComputer) -> None:
        self._computer = computer

    def begin(self, device: str, job: Job, base: Vector, number: int, tickets: JobTickets) -> Result:
        return functools.partial(self._computer.compute_sum, device, number, base, job, tickets)

    def restart(self, device: str) -> None:
        self._computer.restart(device)


class NothingComputed:
    """Trains nothing: deltas are small, and cancel each other from job to job, so that no model leaves its range."""

    _DELTA = 1e-4

    def __init__(self, size: int) -> None:
        self._deltas = [np.full(size, sign * self._DELTA, np.float32) for sign in (1.0, -1.0)]
        for delta in self._deltas:
            delta.setflags(write=False)

    def begin(self, device: str, job: Job, base: Vector, number: int, tickets: JobTickets) -> Result:
        return functools.partial(self._result, number)

    def _result(self, number: int) -> tuple[Vector, float]:
        return self._deltas[number % 2], math.nan

    def restart(self, device: str) -> None:
        """Nothing is kept."""


class VirtualComputing:
    """The computation of one job, as the state machine of its device sees it (``devices.compute.trainer``)."""

    __slots__ = ("_result", "late_losses")

    def __init__(self, result: Result) -> None:
        self._result, self.late_losses = result, 0.0

    def step(self) -> float:
        raise AssertionError("the steps of a job are computed as one")

    def result(self) -> Vector:
        delta, self.late_losses = self._result()
        return delta

    def pause(self) -> None:
        """It stands still anyway."""

    def resume(self) -> None:
        """It stands still anyway."""

    def close(self) -> None:
        """Its result is not needed."""
