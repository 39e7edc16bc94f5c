"""One direction of a device's link: how long a transfer takes, and whether it arrives."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.faults import Fate
from testbed.profile import Direction

_LEAST_FACTOR = 0.1
"""N(1, σ) is cut off here: a transfer never takes less than a tenth of bytes ÷ rate, and never negative time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """A transfer under way; ``due`` is when its last byte would arrive."""

    started: float
    due: float
    asked: float
    bytes: int
    dropped: bool


def transfer(link: Direction, size: int, fate: Fate, now: float) -> Transfer:
    """Begin to move ``size`` bytes at ``now``. A lost transfer takes as long as one that arrives."""
    seconds = link.delay + abs(fate.delay_noise) * link.jitter
    if link.mbit is not None:
        factor = max(_LEAST_FACTOR, 1.0 + link.spread * fate.rate_noise)
        seconds += size * 8 / (link.mbit * 1e6) * factor
    return Transfer(started=now, due=now + seconds, asked=seconds, bytes=size, dropped=fate.dropped)
