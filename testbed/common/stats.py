"""The few statistics that certificates and benchmarks need, exact and without surprises."""

from __future__ import annotations

import math
from collections.abc import Sequence


def quantile(values: Sequence[float], q: float) -> float:
    """The smallest value that at least a share ``q`` of them does not exceed (nearest rank, no interpolation)."""
    if not values:
        raise ValueError("no values")
    return sorted(values)[rank(len(values), q)]


def rank(count: int, q: float) -> int:
    """The place, from 0, of the quantile ``q`` among ``count`` values in ascending order."""
    return max(0, math.ceil(q * count - 1e-9) - 1)  # 0.99 · 1400 is a little more than 1386 in floating point


def ccdf(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Values in ascending order, and the share of them that is at least as large as each."""
    ordered = sorted(values)
    return ordered, [1.0 - i / len(ordered) for i in range(len(ordered))]


def binomial_tails(successes: int, trials: int, probability: float) -> tuple[float, float]:
    """P(X ≤ successes) and P(X ≥ successes) of a binomial distribution."""
    if probability in (0.0, 1.0):
        certain = trials if probability else 0
        return float(successes >= certain), float(successes <= certain)
    masses = [_mass(k, trials, probability) for k in range(trials + 1)]
    return min(1.0, math.fsum(masses[: successes + 1])), min(1.0, math.fsum(masses[successes:]))


def is_plausible(successes: int, trials: int, probability: float, confidence: float) -> bool:
    """Whether a count lies in the central interval that holds at least ``confidence`` of the binomial distribution."""
    return min(binomial_tails(successes, trials, probability)) > (1.0 - confidence) / 2


def _mass(k: int, n: int, p: float) -> float:
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(ways + k * math.log(p) + (n - k) * math.log1p(-p))
