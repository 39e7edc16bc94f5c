"""Reducing many values over time to the quantiles of a limited number of stretches, so that a line can show them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from testbed.common.stats import rank

STRETCHES = 120
_FEW = 6
"""Values that a stretch should have on average, so that its quantiles are meaningful."""


@dataclass(frozen=True, slots=True)
class Band:
    """For each stretch with values: its middle, and p10, p50 and p90 of its values."""

    time: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    middle: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)


def band(points: Sequence[tuple[float, float]], seconds: float) -> Band:
    """Quantiles of points (moment, value) in a run of ``seconds``; values that are not finite are left out."""
    moments, values = np.array(points, dtype=float).reshape(-1, 2).T
    moments, values = moments[np.isfinite(values)], values[np.isfinite(values)]
    found = Band()
    if not len(values):
        return found
    stretches = max(1, min(STRETCHES, len(values) // _FEW))
    width = max(seconds, float(moments.max())) / stretches or 1.0
    place = np.minimum((moments / width).astype(int), stretches - 1)
    order = np.lexsort((values, place))
    bounds = np.searchsorted(place[order], range(stretches + 1))
    for stretch, (first, end) in enumerate(itertools.pairwise(bounds)):
        here = values[order[first:end]]  # in ascending order
        if len(here):
            found.time.append((stretch + 0.5) * width)
            for line, q in ((found.low, 0.1), (found.middle, 0.5), (found.high, 0.9)):
                line.append(float(here[rank(len(here), q)]))
    return found
