"""Whether the model is in a sane range: its norm is finite and less than a thousand times that of the first model.

One update with huge numbers, of a faulty or hostile device, or a learning rate that is too large, moves the model so
far that gradients overflow. Devices then send deltas that are not finite, and the engine rejects them one by one. So
the first sign is reported with its likely cause: the largest update since the last check. The engine measures each new
model once, in one pass. One that is not finite ends the run (``failures.py``).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from aggregator.strategy.vectors import sum_of_squares
from testbed.common.files.statefile import SavedState, pick, put
from testbed.history import trace
from testbed.wire.messages import Update, Vector

_GROWTH = 1000.0


class _Largest(NamedTuple):
    square: float = -1.0
    """The square of the norm of its delta."""
    device: str = ""
    version: int = 0
    """The first version that it can be part of."""


class ModelRange:
    """Knows the range of the models of one run. ``first`` is the initial model."""

    def __init__(self, first: Vector) -> None:
        self._norm = _norm(first)
        """The norm of the model that was measured last."""
        self._start = max(1.0, self._norm)
        self._limit = _GROWTH * self._start
        """The norm from which the model is reported next: each report of a run is of another order of magnitude."""
        self._largest = _Largest()
        self._checked = 0

    def state(self) -> SavedState:
        """Return what a checkpoint keeps: a resumed run does not repeat a report."""
        return pick(self, ("_norm", "_limit", "_checked"))

    def restore(self, state: SavedState) -> None:
        """Continue from what ``state`` returned."""
        put(self, state)

    def note(self, update: Update, square: float, version: int) -> None:
        """Note an update that a strategy gets; ``square``: of the norm of its delta."""
        if square > self._largest.square:
            self._largest = _Largest(square, update.device, version + 1)

    def measure(self, model: Vector) -> None:
        """Measure a new model."""
        self._norm = _norm(model)

    @property
    def is_finite(self) -> bool:
        """Whether the model that was measured last has finite numbers only."""
        return math.isfinite(self._norm)

    def is_out(self, model: Vector) -> bool:
        """Whether a model is out of the range in which a run begins."""
        return not _norm(model) <= _GROWTH * self._start

    def check(self, version: int, now: float) -> trace.OutOfRange | None:
        """Return an event if the norm of the model measured last has grown by another three orders of magnitude."""
        if version == self._checked:
            return None
        largest, self._largest, self._checked = self._largest, _Largest(), version
        norm = self._norm
        if norm <= self._limit:
            return None
        self._limit = norm * _GROWTH
        return trace.OutOfRange(
            t=now,
            version=min(version, largest.version) if largest.device else version,
            norm=norm if math.isfinite(norm) else None,
            start=self._start,
            device=largest.device,
            largest=math.sqrt(max(0.0, largest.square)),
        )


def _norm(model: Vector) -> float:
    """The norm of a model; infinity if it is not finite."""
    square = sum_of_squares(model)
    if not math.isfinite(square):  # perhaps only in single precision
        square = float(np.square(model, dtype=np.float64).sum())
    return math.sqrt(square) if math.isfinite(square) else math.inf


def in_words(event: trace.OutOfRange) -> str:
    """A warning for the terminal."""
    norm = "not finite" if event.norm is None else f"{event.norm:.2g}"
    cause = f"; the largest update before it, from {event.device}, has {event.largest:.2g}" if event.device else ""
    return (
        f"the norm of the model is {norm} at version {event.version}, and was {event.start:.2g} at most at the"
        f" start{cause}: updates that are not finite will be rejected; lower training.lr, or set aggregator.clip"
    )
