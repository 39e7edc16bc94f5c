"""TWAFL: temporally weighted aggregation of K local models.

Chen, Sun, Jin: Communication-Efficient Federated Deep Learning With Layerwise Asynchronous Model Update and Temporally
Weighted Aggregation. IEEE TNNLS 31(10), 2020, doi:10.1109/TNNLS.2019.2953131, arXiv:1903.07424. As the baseline of
Zhou et al. 2024 (EAFL), section VI.

Symbols
    as in staleness-weighted SAFL: V^t, |D_i|, τ_i, α, ρ_i
    S(τ)    (e/2)^−τ

Rule
    ρ_i ∝ |D_i| · (e/2)^−τ_i, Σρ = 1
    w^t = (1 − α) w^{t−1} + α Σ_{i∈V^t} ρ_i w_i^t

Departures
    The layerwise part of the paper (shallow layers more often than deep ones) is not part of the baseline.
    The weights are normalised, as in staleness-weighted SAFL, for the same reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from aggregator.pacing import KMixed


@dataclass(kw_only=True)
class TWAFL(KMixed):
    """Semi-asynchronous, models weighted by (e/2)^−τ (Chen et al., TNNLS 2020)."""

    def s(self, tau: int) -> float:
        return float((math.e / 2) ** -tau)
