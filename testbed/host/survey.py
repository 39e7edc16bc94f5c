"""The survey: sizes, FLOPs and seconds per step of a task on this host, measured before the run.

The template (``testbed.processes.templates.template``) makes it, the planner uses it, and it is kept with the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec


class StepTime(msgspec.Struct, frozen=True, kw_only=True):
    """CPU seconds of one local step of ``samples`` samples on a core of this host."""

    samples: int
    seconds: float
    """Median, with as many processes on each core as the run will have (at most four)."""
    alone: float
    """Median, with one process."""
    slow: float
    """The 90th percentile with other processes: deadlines must hold even when a shared host is slow."""

    def slower(self, factor: float) -> StepTime:
        """Return the times on a host on which a step takes ``factor`` times as long."""
        return StepTime(
            samples=self.samples, seconds=self.seconds * factor, alone=self.alone * factor, slow=self.slow * factor
        )


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes are exact; times were measured just before the run, or at most an hour earlier and then confirmed."""

    parameters: int = 0
    samples: tuple[int, ...] = ()
    """Training samples of each device, in fleet order."""
    flops_forward: int = 0
    flops_training: int = 0
    """FLOPs of one sample; a multiplication and an addition are two. 0 if they were not counted."""
    work: float = 1.0
    """How many times the FLOPs of the network for which the catalogue of devices has speeds."""
    data_sha256: str = ""
    """Of the samples; empty if they are not known to be the same in each run."""
    steps: tuple[StepTime, ...] = ()
    """A small batch first, then the whole batch, or half a second of it; empty if no device is throttled."""
    evaluation_seconds: float = 0.0
    metrics: tuple[str, ...] = ()
    """The names of the task's metrics."""
    update_seconds: dict[str, float] = {}
    """Strategy → host seconds of the aggregator for one update, measured in an earlier run with the same survey."""
    crowd: dict[int, int] = {}
    """Core → processes on it during the calibration."""
    device_bytes: int = 0
    """The unique memory of a process that has computed local steps; 0: not measured."""
    notes: tuple[str, ...] = ()
    """What a user should know about the task, in sentences."""
    governor: str | None = None
    pressure: float | None = None
    """Share of the preparation in which a process waited for a core (PSI); None: not measured."""
    measured_at: float | None = None
    """When the times were measured, in seconds since 1970; None in files of earlier versions."""
    age_seconds: float = 0.0
    """How old the times were when the run began; 0 if they were measured for it."""
    task_digest: str = ""
    """Digest of the first model, the partition and the data; only for a task that was a Python object."""
    key: str = ""
    """Digest of host and task; surveys with the same key are comparable."""

    @property
    def is_remembered(self) -> bool:
        return self.age_seconds > 0

    @property
    def origin(self) -> str:
        """Return in words when the times were measured."""
        if self.measured_at is None or not self.is_remembered:
            return "survey of this moment"
        measured = datetime.fromtimestamp(self.measured_at)
        return f"survey of {measured:%H:%M} ({self.age_seconds / 60:.0f} min ago)"

    @property
    def model_bytes(self) -> int:
        return 4 * self.parameters

    def step_seconds(self, samples: float) -> float:
        """CPU seconds of a step of ``samples`` samples, on the line through the timed batches."""
        return _line([(step.samples, step.seconds) for step in self.steps], samples)

    def slow_step_seconds(self, samples: float) -> float:
        """The same, when the host is slow."""
        return _line([(step.samples, step.slow) for step in self.steps], samples)


def _line(points: Sequence[tuple[int, float]], x: float) -> float:
    (x0, y0), (x1, y1) = points[0], points[-1]
    if x0 == x1:
        return y0
    slope = max(0.0, (y1 - y0) / (x1 - x0))  # noise must not make more samples cheaper
    return max(y0 + slope * (x - x0), 0.1 * y0)
