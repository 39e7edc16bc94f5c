"""SAA and DSA: updates are first aggregated within each cluster, by staleness, then among clusters, by samples.

Zhou, Pang, Wang, Hu, Sun, Ren: Towards Efficient Asynchronous Federated Learning in Heterogeneous Edge Environments
(EAFL). 2024, section V.C, equations (2) to (5).

Symbols
    X_n, V_n    devices of cluster n; the fastest share φ of them, whose updates have arrived
    |D_i|       samples of device i; |D_n^t| of those in V_n, |D_n| of all in X_n, |D| of all clusters
    τ_i         staleness + 1: the paper counts a fresh update as 1
    p_i         weight by staleness
    Δ_i         −η·g_i, the update of device i; Δ̄_n = −η·ḡ_n of cluster n

Rule
    p_i = 1/τ_i                                                                 (3)
    ḡ_n = Σ_{i∈V_n} |D_i|/|D_n^t|·p_i·g_i,   the same with Δ                    (4)  SAA
    w ← w − η·Σ_n |D_n|·ḡ_n/|D|  =  w + Σ_n |D_n|/|D|·Δ̄_n                       (5)  DSA

Readings
    (4) is not renormalised: its weights add up to 1 only if all updates are fresh. A cluster of stale updates makes a
    smaller step.
    (4) prints the gradient at w_i^t, the model after local training (2); this is read as the device's upload.

Departures
    Devices may take several local steps: Δ is their sum.
    A head waits for ⌈φ·|X_n|⌉ devices. The paper says only "the fastest φ ratio".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from aggregator.strategy.vectors import add_scaled
from testbed.wire.messages import Vector

_ROUNDING = 1e-9  # 0.14 · 50 is 7.000000000000001 in binary


def quorum(phi: float, members: int) -> int:
    """Return how many updates a head waits for: ⌈φ·|X_n|⌉, at least 1."""
    return max(1, math.ceil(phi * members - _ROUNDING))


def saa_weights(samples: Sequence[int], staleness: Sequence[int]) -> list[float]:
    """Return the weight of each update in Δ̄_n; a fresh update has staleness 0."""
    total = sum(samples)  # |D_n^t|
    return [own / total / (tau + 1) for own, tau in zip(samples, staleness, strict=True)]  # (3), (4)


def merge_weights(samples: Sequence[int], staleness: Sequence[int], *, damped: bool) -> list[float]:
    """Return the weights of SAA or, if not ``damped``, of the plain mean."""
    return saa_weights(samples, staleness) if damped else [1 / len(samples)] * len(samples)


def dsa_weights(samples: Sequence[int], total: int | None = None) -> list[float]:
    """Return the weight of each cluster's result, by the samples of the *whole* cluster.

    ``total`` is |D| if some clusters have no result, as with asynchronous heads.
    """
    everything = sum(samples) if total is None else total
    return [own / everything for own in samples]  # (5)


def saa(deltas: Sequence[Vector], samples: Sequence[int], staleness: Sequence[int], *, damped: bool = True) -> Vector:
    """Return Δ̄_n of one cluster; if not ``damped``, the plain mean."""
    result = np.zeros_like(deltas[0])
    for weight, delta in zip(merge_weights(samples, staleness, damped=damped), deltas, strict=True):
        add_scaled(result, weight, delta)  # (4)
    return result


def dsa(model: Vector, deltas: Sequence[Vector], samples: Sequence[int], total: int | None = None) -> Vector:
    """Return the next model, from the Δ̄_n of the clusters."""
    result = model.copy()
    for weight, delta in zip(dsa_weights(samples, total), deltas, strict=True):
        add_scaled(result, weight, delta)  # (5)
    return result
