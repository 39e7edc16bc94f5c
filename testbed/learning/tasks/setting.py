"""What a task is opened for."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.common.progress import NO_PROGRESS, Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How many devices share the data, the two seeds of a task, and who is told while files are fetched and read."""

    devices: int
    data_seed: int = 0
    """Of the split, and of data that is generated."""
    model_seed: int = 0
    progress: Progress = NO_PROGRESS
