"""Reducing many values over time to the quantiles of a limited number of stretches, so that a line can show them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from testbed.common.files.spool import Spool
from testbed.common.stats import rank

STRETCHES = 120
_FEW = 6
"""Values that a stretch should have on average, so that its quantiles are meaningful."""
_MOST_AT_ONCE = 1 << 18
"""Values in memory."""

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Band:
    """For each stretch with values: its middle, and p10, p50 and p90 of its values."""

    time: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    middle: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)


def band(points: Spool, seconds: float) -> Band:
    """Quantiles of points (moment, value) in a run of ``seconds``; values that are not finite are left out."""
    count, last = 0, -math.inf
    for moments, _ in _finite(points):
        count, last = count + len(moments), max(last, float(moments.max()))
    found = Band()
    if not count:
        return found
    stretches = max(1, min(STRETCHES, count // _FEW))
    width = max(seconds, last) / stretches or 1.0
    for stretch, here in _by_stretch(points, stretches, width):
        found.time.append((stretch + 0.5) * width)
        for line, q in ((found.low, 0.1), (found.middle, 0.5), (found.high, 0.9)):
            line.append(float(here[rank(len(here), q)]))
    return found


def _by_stretch(points: Spool, stretches: int, width: float) -> Iterator[tuple[int, Values]]:
    """Each stretch with values, and its values in ascending order. A pass takes as many as fit into memory."""
    counts = np.zeros(stretches, int)
    for moments, _ in _finite(points):
        counts += np.bincount(_places(moments, width, stretches), minlength=stretches)
    first = 0
    while first < stretches:
        fitting = int(np.searchsorted(np.cumsum(counts[first:]), _MOST_AT_ONCE, side="right"))
        end = first + max(1, fitting)
        parts: list[tuple[npt.NDArray[np.int64], Values]] = []
        for moments, values in _finite(points):
            place = _places(moments, width, stretches)
            here = (first <= place) & (place < end)
            parts.append((place[here], values[here]))
        place, values = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((values, place))
        bounds = np.searchsorted(place[order], range(first, end + 1))
        for stretch, (begin, stop) in enumerate(itertools.pairwise(bounds), first):
            if begin < stop:
                yield stretch, values[order[begin:stop]]
        first = end


def _finite(points: Spool) -> Iterator[tuple[Values, Values]]:
    """Moments and values of the points with finite values, block by block."""
    for block in points.blocks():
        kept = block[np.isfinite(block[:, 1])]
        if len(kept):
            yield kept[:, 0], kept[:, 1]


def _places(moments: Values, width: float, stretches: int) -> npt.NDArray[np.int64]:
    return np.minimum((moments / width).astype(np.int64), stretches - 1)
