"""Random positions in traces at which devices begin, if the profile gives none: devices are not synchronised."""

from __future__ import annotations

import enum

import numpy as np

_APART = 1 << 32
"""Added to the last word of the counter: these draws never coincide with those of ``testbed.emulation.faults``."""


class OffsetKind(enum.IntEnum):
    LINK = 0
    """One draw for both directions: traces that were recorded together stay synchronised."""
    AVAILABILITY = 1
    PLACE = 2
    """In a radio cell: the part of its area that is nearer to the server."""


def drawn(seed: int, device: int, kind: OffsetKind, period: float) -> float:
    """Return a position in a trace of this period. It depends only on seed, device and kind."""
    bits = np.random.Philox(key=[seed, device], counter=[0, 0, 0, _APART + int(kind)])
    return float(np.random.Generator(bits).random()) * period
