"""What the template found out about the task and this host before the run: sizes, FLOPs, seconds per step.

Written by the template (``testbed.processes.template``), read by whoever plans, and kept with the run. No measuring here.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class StepTime(msgspec.Struct, frozen=True, kw_only=True):
    """CPU seconds of one local step of so many samples on this host's core."""

    samples: int
    seconds: float
    """Median, among as many processes to a core as the run will have (up to a few)."""
    alone: float
    """Median, with nobody else on the cores."""
    slow: float
    """p90 in company: a host that is shared with others is slower at times, and deadlines must hold then too."""


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes are exact, times were measured just now."""

    parameters: int = 0
    samples: tuple[int, ...] = ()
    """Training samples of each device, in fleet order."""
    flops_forward: int = 0
    flops_training: int = 0
    """Of one sample; a multiplication and an addition are two. 0 where nobody asked."""
    steps: tuple[StepTime, ...] = ()
    """Small batch first, then the batch, or as much of it as half a second allows; empty if nobody is throttled."""
    evaluation_seconds: float = 0.0
    metrics: tuple[str, ...] = ()
    """What the task is scored by."""
    crowd: dict[int, int] = {}
    """Processes to each core during the calibration."""
    governor: str | None = None
    pressure: float | None = None
    """Share of the time in which somebody waited for a core (PSI), while the template was made; None: not measured."""

    @property
    def model_bytes(self) -> int:
        return 4 * self.parameters

    def step_seconds(self, samples: float) -> float:
        """CPU seconds of a step of ``samples`` samples: the line through the batches that were timed."""
        return _line([(step.samples, step.seconds) for step in self.steps], samples)

    def slow_step_seconds(self, samples: float) -> float:
        """The same in one of the host's slow moments."""
        return _line([(step.samples, step.slow) for step in self.steps], samples)


def _line(points: Sequence[tuple[int, float]], x: float) -> float:
    (x0, y0), (x1, y1) = points[0], points[-1]
    if x0 == x1:
        return y0
    slope = max(0.0, (y1 - y0) / (x1 - x0))  # noise must not make more samples cheaper
    return max(y0 + slope * (x - x0), 0.1 * y0)
