"""What a task needs to know about the experiment."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.common.progress_protocol import NO_PROGRESS, Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The number of devices, the two seeds of a task, and the receiver of progress reports."""

    devices: int
    data_seed: int = 0
    """Seed of the split and of generated data."""
    model_seed: int = 0
    progress: Progress = NO_PROGRESS
