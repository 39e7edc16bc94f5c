"""Choosing devices at random."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

_ROUNDING = 1e-9  # 0.29 · 100 is 28.999… in binary


def fraction_of(fraction: float, devices: int) -> int:
    """max(⌊C·N⌋, 1)."""
    return max(math.floor(fraction * devices + _ROUNDING), 1)


def sample(devices: Iterable[str], size: int, random: np.random.Generator) -> list[str]:
    """Return ``size`` devices without replacement. If all are chosen, ``random`` is not used."""
    names = sorted(devices)
    if size >= len(names):
        return names
    return [names[i] for i in random.permutation(len(names))[: max(size, 0)]]
