"""Staleness-weighted SAFL: the K local models are averaged by samples and staleness, and mixed into the global one.

Zhou, Pang, Wang, Hu, Sun, Ren: Towards Efficient Asynchronous Federated Learning in Heterogeneous Edge Environments.
IEEE INFOCOM 2024, pp. 2448–2457 (EAFL), eq. (1).

Symbols
    V^t     the K devices whose updates arrive first
    |D_i|   samples of device i
    τ_i     staleness in versions; a fresh update has τ = 0
    S(τ)    1/(τ + 1)
    α       mixing weight
    ρ_i     share of device i in the mean; Σρ = 1

Rule
    ρ_i ∝ |D_i| · S(τ_i)
    w^t = (1 − α) w^{t−1} + α Σ_{i∈V^t} ρ_i w_i^t                              (1)

Departures
    Eq. (1) prints a minus before the sum, and divides by |D^t| alone. Both would destroy the model: the minus is a
    misprint, and weights that do not add up to 1 shrink it. The paper counts a fresh update as τ = 1, with S = 1/τ.
"""

from __future__ import annotations

from dataclasses import dataclass

from aggregator.pacing import KMixed


@dataclass(kw_only=True)
class SAFLWeighted(KMixed):
    """Semi-asynchronous, models weighted by samples and staleness (eq. 1 of Zhou et al., 2024)."""

    def s(self, tau: int) -> float:
        return 1 / (tau + 1)
