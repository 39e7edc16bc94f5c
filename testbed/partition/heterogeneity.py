"""Heterogeneity of labels: their mean distance from the labels of all devices, measured and by chance alone."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt


def distance(counts: npt.NDArray[np.int64]) -> float:
    """Return the mean over devices of the total variation between the labels of one and those of all.

    ``counts``: labels × devices. 0: each device has the same shares of labels; near 1: each has labels of its own.
    """
    used = counts[:, counts.sum(axis=0) > 0]
    if not used.size:
        return 0.0
    pooled = used.sum(axis=1) / used.sum()
    each = used / used.sum(axis=0)
    return float(np.mean(np.abs(each - pooled[:, None]).sum(axis=0) / 2))


def distance_at_random(counts: npt.NDArray[np.int64]) -> float:
    """Return the expected distance if devices got the same numbers of samples at random.

    It is not 0: a device with a single sample has a single label. The formula is exact for draws with replacement;
    without replacement, the deviation is smaller by √((N − n) / (N − 1)).
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
    log_binomial = math.lgamma(n + 1) - math.lgamma(m + 1) - math.lgamma(n - m + 1)
    return 2 * m / n * math.exp(log_binomial + m * math.log(p) + (n - m + 1) * math.log1p(-p))
