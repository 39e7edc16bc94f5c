"""How uneven labels are: how far the labels of a device are from those of all, and how far chance alone takes them."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt


def distance(counts: npt.NDArray[np.int64]) -> float:
    """Mean over devices of the total variation between the labels of one and those of all; counts: labels × devices.

    0: each device is like the whole; towards 1: what a device has is rare elsewhere.
    """
    had = counts[:, counts.sum(axis=0) > 0]
    if not had.size:
        return 0.0
    pooled = had.sum(axis=1) / had.sum()
    each = had / had.sum(axis=0)
    return float(np.mean(np.abs(each - pooled[:, None]).sum(axis=0) / 2))


def distance_at_random(counts: npt.NDArray[np.int64]) -> float:
    """What the distance would be on average if the same numbers of samples were dealt at random.

    A device with few samples is unlike the whole in any case: with a single one, it has a single label. Exact for draws
    with replacement; that nothing is put back makes the difference smaller by √((N − n) / (N − 1)).
    """
    sizes = counts.sum(axis=0)
    every = int(sizes.sum())
    pooled = [float(share) for share in counts.sum(axis=1) / max(every, 1)]
    found = [
        sum(_deviation(int(n), share) for share in pooled) / 2 * math.sqrt((every - n) / max(every - 1, 1))
        for n in sizes
        if n > 0
    ]
    return math.fsum(found) / len(found) if found else 0.0


@lru_cache(maxsize=100_000)
def _deviation(n: int, p: float) -> float:
    """E|X/n − p| of a binomial X: de Moivre's formula, 2 m C(n, m) p^m (1 − p)^(n − m + 1) / n with m = ⌊np⌋ + 1."""
    if p <= 0 or p >= 1:
        return 0.0
    m = math.floor(n * p) + 1
    ways = math.lgamma(n + 1) - math.lgamma(m + 1) - math.lgamma(n - m + 1)
    return 2 * m / n * math.exp(ways + m * math.log(p) + (n - m + 1) * math.log1p(-p))
