"""Where in its traces the run of a device begins, if the profile does not say: drawn, so that no two are in step."""

from __future__ import annotations

import enum

import numpy as np

_APART = 1 << 32
"""Added to the last word of the counter: no draw of ``testbed.emulation.faults`` has such an address."""


class OffsetKind(enum.IntEnum):
    LINK = 0
    """One draw for both directions: traces that were recorded together stay together."""
    AVAILABILITY = 1
    PLACE = 2
    """In a radio cell: of its area, the part that is nearer to the server."""


def drawn(seed: int, device: int, kind: OffsetKind, period: float) -> float:
    """A place in a trace of that period; the same for a seed and a device, whatever the rule."""
    bits = np.random.Philox(key=[seed, device], counter=[0, 0, 0, _APART + int(kind)])
    return float(np.random.Generator(bits).random()) * period
