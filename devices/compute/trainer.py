"""The computing of one job, as the state machine sees it: made of steps, can be paused, abandoned and asked for."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Protocol, TypeAlias

from testbed.wire.messages import Job, Vector

Steps: TypeAlias = Generator[float, None, Vector]
"""Local training that yields the loss of each step and returns the delta."""


class Computation(Protocol):
    """Local training under way."""

    def step(self) -> float:
        """Compute one step here and now; gives its loss. Not for a computing that runs in a process of its own."""
        ...

    def result(self) -> Vector:
        """The delta, after the last step."""
        ...

    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def close(self) -> None:
        """Throw it away."""
        ...


Trainer: TypeAlias = Callable[[Job, Vector, int], Computation]
"""Begins local training: what to do, the model to start from, the number of the job."""


class Stepwise:
    """Steps computed in the device's own process, one at a time, when the state machine says so."""

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
        raise AssertionError("local training went on after its last step")

    def pause(self) -> None:
        """It stands still between two steps anyway."""

    def resume(self) -> None:
        """It goes on with the next step."""

    def close(self) -> None:
        self._steps.close()
