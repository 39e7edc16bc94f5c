"""The computation of one job, as the state machine sees it: steps that can be paused, abandoned and finished."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import Protocol, TypeAlias

from devices.compute.kept_memory import JobTickets
from testbed.wire.messages import Vector
from testbed.wire.training_job import Job

Steps: TypeAlias = Generator[float, None, Vector]
"""Local training that yields the loss of each step and returns the delta."""


class Computation(Protocol):
    """Local training that is under way."""

    late_losses: float
    """Sum of the losses that ``step`` did not return, because they are known only with the result; else 0."""

    def step(self) -> float:
        """Compute one step and return its loss. Raises AssertionError if a worker process computes the steps."""
        ...

    def result(self) -> Vector:
        """Return the delta, after the last step."""
        ...

    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def close(self) -> None:
        """Abandon the computation."""
        ...


def mean_loss(losses: float, steps: int) -> float | None:
    """The mean loss of the steps of a job, by the sum of their losses; None if it is not finite."""
    return losses / steps if math.isfinite(losses) else None


def complete(computing: Computation, steps: int) -> tuple[Vector, float]:
    """Compute all steps of a job at once; return the delta and the sum of the losses."""
    losses = 0.0
    for _ in range(steps):
        losses += computing.step()
    return computing.result(), losses


Trainer: TypeAlias = Callable[[Job, Vector, int, JobTickets], Computation]
"""Begins local training. Its arguments: the job, the model to start from, the number of the job, its tickets."""


class Stepwise:
    """Steps that the process of the device computes itself, one at a time, when the state machine wants one."""

    late_losses = 0.0

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def step(self) -> float:
        return next(self._steps)

    def result(self) -> Vector:
        try:
            next(self._steps)
        except StopIteration as end:
            delta: Vector = end.value
            return delta
        raise AssertionError("local training continued after its last step")

    def pause(self) -> None:
        """Do nothing: it stands still between two steps."""

    def resume(self) -> None:
        """Do nothing: it continues with the next step."""

    def close(self) -> None:
        self._steps.close()
