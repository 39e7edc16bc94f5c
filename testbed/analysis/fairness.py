"""Measures of how evenly something is distributed.

For shares x_1 … x_n ≥ 0, not all 0:
    Jain's index    (Σ x_i)² / (n·Σ x_i²)                       1/n: one has everything; 1: all are equal
    Gini            Σ_i Σ_j |x_i − x_j| / (2·n·Σ x_i)           0: all are equal; 1 − 1/n: one has everything
"""

from __future__ import annotations

from collections.abc import Sequence


def jain(shares: Sequence[float]) -> float:
    return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))


def gini(shares: Sequence[float]) -> float:
    """Uses that, for sorted shares, Σ_i Σ_j |x_i − x_j| = 2·Σ_i (2i − n − 1)·x_i."""
    count = len(shares)
    spread = sum((2 * i - count - 1) * share for i, share in enumerate(sorted(shares), 1))
    return spread / (count * sum(shares))
