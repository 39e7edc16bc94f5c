"""Statistics for certificates and benchmarks: quantiles, distributions, binomial tests."""

from __future__ import annotations

import math
from collections.abc import Sequence


def quantile(values: Sequence[float], q: float) -> float:
    """Return the quantile ``q`` by nearest rank: the smallest value that a share ``q`` of all does not exceed."""
    if not values:
        raise ValueError("no values")
    return sorted(values)[rank(len(values), q)]


def rank(count: int, q: float) -> int:
    """Return the index of the quantile ``q`` in ``count`` sorted values."""
    return max(0, math.ceil(q * count - 1e-9) - 1)  # 0.99 · 1400 is a little more than 1386 in floating point


def ccdf(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the sorted values, and for each the share of values that are at least as large."""
    ordered = sorted(values)
    return ordered, [1.0 - i / len(ordered) for i in range(len(ordered))]


def binomial_tails(successes: int, trials: int, probability: float) -> tuple[float, float]:
    """Return P(X ≤ successes) and P(X ≥ successes) of a binomial distribution."""
    if probability in (0.0, 1.0):
        certain = trials if probability else 0
        return float(successes >= certain), float(successes <= certain)
    below, above = (
        math.fsum(_mass(k, trials, probability) for k in numbers)  # one by one: trials may be millions
        for numbers in (range(successes + 1), range(successes, trials + 1))
    )
    return min(1.0, below), min(1.0, above)


def is_plausible(successes: int, trials: int, probability: float, confidence: float) -> bool:
    """Return whether a count lies in the central interval that covers ``confidence`` of the binomial distribution."""
    return min(binomial_tails(successes, trials, probability)) > (1.0 - confidence) / 2


def _mass(k: int, n: int, p: float) -> float:
    combinations = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(combinations + k * math.log(p) + (n - k) * math.log1p(-p))
