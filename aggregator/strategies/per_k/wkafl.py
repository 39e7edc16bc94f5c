"""WKAFL: the K fastest updates count only if their direction is near that of the fresh ones.

Zhou, Li, Ren, Yang: Towards Efficient and Stable K-Asynchronous Federated Learning with Unbounded Stale Gradients on
Non-IID Data. IEEE TPDS 33(12), 2022, arXiv:2203.01214. As the baseline of Zhou et al. 2024 (EAFL), section VI.

Symbols
    K       updates per version
    g_i     −Δ_i/η, the gradient of device i, summed over its local steps; η is ``training.lr``
    u       the gradient that the last version applied; 0 before the first
    α       momentum: how much of u is added to each gradient
    B       norm to which gradients are clipped
    p_i     weight by staleness, Σp = 1
    ĝ       estimate of the unbiased gradient
    θ, β    smallest cosine; how much more nearer gradients count
    c       how much staleness lowers the learning rate

Rule
    g_i ← g_i + α·u,   then g_i ← g_i · min(1, B/‖g_i‖)                        momentum, clip
    ĝ = Σ p_i g_i,   p_i ∝ (e/2)^−τ_i                                          stage 1
    keep i if cos(g_i, ĝ) ≥ θ,   q_i ∝ p_i·exp(β·cos(g_i, ĝ)), Σq = 1          stage 2
    u ← Σ q_i g_i over the kept; if none is kept, u ← ĝ
    x ← x − η_t·u,   η_t = η/(1 + c·min τ_i over all K)

Readings
    The rule and its defaults are those of the authors' program for MNIST (github.com/zzh816/WKAFL-code). For all data
    sets it has α = 0.1 and θ = 0.3; β is 10 for MNIST and EMNIST, 20 for CelebA and 50 for CIFAR-10, and c is 0.1, 0.1,
    0.05 and 0.01. For EMNIST and CelebA its q_i has no factor p_i.
    The program counts a fresh update as τ = 1, so its η_t is never η itself; here a fresh update has τ = 0.

Departures
    The program clips a second time after a number of iterations, to a multiple of the norm of the sum so far. That sum
    is 0 before the first gradient, which is clipped to 0: here there is one clip.
    A gradient is also kept if its cosine is at most 1e-6 below θ: without this, rounding could keep one of two equal
    gradients and reject the other. (The program keeps cosines above θ.) A gradient of norm exactly B is not clipped.
    A gradient without a direction (all zero) has cosine 0; in the program it has 1.
    An update that is not kept is rejected.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from aggregator.pacing import EveryK, normalised
from aggregator.strategy import Server
from aggregator.strategy.vectors import add_scaled, cosine, norm, plus_scaled
from testbed.common.parameters import param
from testbed.wire.messages import Update, Vector

_ROUNDING = 1e-6
"""Cosines of vectors in single precision that should be equal differ by less."""


@dataclass(kw_only=True)
class WKAFL(EveryK):
    """Two-stage weighting of the K fastest by staleness and direction (Zhou et al., TPDS 2022)."""

    alpha: float = param(0.1, "α: how much of the last applied gradient is added to each", at_least=0, below=1)
    clip: float = param(100.0, "B: largest norm of a gradient", above=0)
    theta: float = param(0.3, "θ: smallest cosine to the estimated gradient", at_least=-1, at_most=1)
    beta: float = param(10.0, "β: how much more nearer gradients count", at_least=0)
    c: float = param(0.1, "c: how much staleness lowers the learning rate", at_least=0)

    unused: ClassVar[str] = "its direction is too far from the estimated gradient"

    _last: Vector | None = field(default=None, init=False, repr=False)
    """−η·u."""

    def new_model(self, updates: Sequence[Update], server: Server) -> tuple[Vector, dict[int, float]]:
        # Δ = −η g has the opposite direction for all devices alike; B limits g
        longest = self.clip * server.job.lr
        scales = [longest / max(norm(self._with_momentum(update)), longest) for update in updates]  # clip
        tau = [server.staleness(update) for update in updates]
        p = normalised([(math.e / 2) ** -each for each in tau])
        estimate = self._sum(updates, scales, dict(enumerate(p)))  # stage 1
        cosines = [cosine(self._with_momentum(update), estimate) for update in updates]
        q = self._kept(p, cosines) or dict(enumerate(p))  # stage 2
        self._last = self._sum(updates, scales, q)
        lr_factor = 1 / (1 + self.c * min(tau))  # η_t/η
        applied = {updates[i].ticket: lr_factor * weight * scales[i] for i, weight in q.items()}
        return plus_scaled(server.model, lr_factor, self._last), applied

    def _with_momentum(self, update: Update) -> Vector:
        return update.delta if self._last is None else plus_scaled(update.delta, self.alpha, self._last)

    def _kept(self, p: Sequence[float], cosines: Sequence[float]) -> dict[int, float]:
        """Return index → q of the gradients that are near the estimate; none may be."""
        kept = [i for i, each in enumerate(cosines) if each >= self.theta - _ROUNDING]
        if not kept:
            return {}
        nearest = max(cosines)  # it cancels out: exp(β) alone may overflow
        q = normalised([p[i] * math.exp(self.beta * (cosines[i] - nearest)) for i in kept])
        return dict(zip(kept, q, strict=True))

    def _sum(self, updates: Sequence[Update], scales: Sequence[float], weights: Mapping[int, float]) -> Vector:
        """Return the weighted sum of the clipped gradients with these indices."""
        total = np.zeros_like(updates[0].delta)
        for i, weight in weights.items():
            add_scaled(total, weight * scales[i], updates[i].delta)
        if self._last is not None:
            add_scaled(total, self.alpha * sum(weight * scales[i] for i, weight in weights.items()), self._last)
        return total
