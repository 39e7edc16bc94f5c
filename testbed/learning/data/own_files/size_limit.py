"""A limit on the memory that a user's data may need as arrays, checked before the memory is used."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import psutil

from testbed.common.errors import UserError

_FREE_SHARE = 0.5
"""Share of the free memory of the host that the arrays may need: they are copied once before they are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeLimit:
    """Refuses arrays that are larger than ``most_mb`` or than half of the free memory."""

    path: Path
    most_mb: int

    def check(self, needed: int, remedy: str) -> None:
        """Raise UserError if arrays of so many bytes are too large. ``remedy``: how the data could be smaller."""
        if needed > self.most_mb * 1_000_000:
            raise UserError(
                f"{self.path}: its samples need {_mb(needed)} MB as arrays, and task.most_mb is {self.most_mb}: raise"
                f" it, or {remedy}"
            )
        free = psutil.virtual_memory().available
        if needed > _FREE_SHARE * free:
            raise UserError(
                f"{self.path}: its samples need {_mb(needed)} MB as arrays, and this host has {_mb(free)} MB free: free"
                f" some, or {remedy}"
            )


def _mb(count: int) -> str:
    return f"{math.ceil(count / 1e6):,}"
