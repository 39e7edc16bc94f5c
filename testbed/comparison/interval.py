"""The mean of a few runs with its 95 % interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

_T = (
    12.706,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
    2.120,
    2.110,
    2.101,
    2.093,
    2.086,
    2.080,
    2.074,
    2.069,
    2.064,
    2.060,
    2.056,
    2.052,
    2.048,
    2.045,
    2.042,
)
"""Student's t, 97.5 %, for 1 … 30 degrees of freedom."""
_NORMAL = 1.959964


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of ``count`` runs and its 95 % interval; one run has no variance, and so only a mean."""

    count: int
    mean: float
    half: float | None
    """Half the width of the interval."""
    low: float | None
    high: float | None


def mean(values: Sequence[float]) -> Interval | None:
    """The mean with the interval that covers the true mean in 95 % of such experiments, for normal values.

    Returns None without values.
    """
    if not values:
        return None
    count, middle = len(values), math.fsum(values) / len(values)
    if count == 1:
        return Interval(count=1, mean=middle, half=None, low=None, high=None)
    variance = math.fsum((value - middle) ** 2 for value in values) / (count - 1)
    half = student(count - 1) * math.sqrt(variance / count)
    return Interval(count=count, mean=middle, half=half, low=middle - half, high=middle + half)


def student(freedom: int) -> float:
    """The 97.5 % quantile of Student's t; beyond the table, by its expansion around the normal quantile."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    z = _NORMAL
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
