"""WKAFL: the K fastest updates count only if their direction is near that of the fresh ones.

Zhou, Li, Ren, Yang: Towards Efficient and Stable K-Asynchronous Federated Learning with Unbounded Stale Gradients on
Non-IID Data. IEEE TPDS 33(12), 2022. As the baseline of Zhou et al. 2024 (EAFL), section VI.

Symbols
    K       updates per version
    g_i     −Δ_i/η, the gradient of device i, summed over its local steps; η is ``training.lr``
    B       norm to which gradients are clipped
    p_i     weight by staleness, Σp = 1
    ĝ       estimate of the unbiased gradient
    θ, β    smallest cosine; how much more nearer gradients count
    c       how much staleness lowers the learning rate

Rule
    g_i ← g_i · min(1, B/‖g_i‖)                                                clip
    ĝ = Σ p_i g_i,   p_i ∝ (e/2)^−τ_i                                          stage 1
    keep i if cos(g_i, ĝ) ≥ θ,   q_i ∝ exp(β·cos(g_i, ĝ)), Σq = 1              stage 2
    x ← x − η_t Σ q_i g_i,   η_t = η/(1 + c·mean τ_i over the kept)

Departures
    The source is not explicit about a second clip late in training and about the learning rate: here there is a single
    clip, and the learning rate above. If no cosine reaches θ, the largest one is kept, with all that equal it.
    A gradient of norm exactly B is not clipped, and one with cosine exactly θ is kept. A gradient without a direction
    (all zero) has cosine 0. An update that is not kept is rejected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aggregator.pacing import EveryK, normalised
from aggregator.strategy import Server
from aggregator.strategy.vectors import add_scaled, cosine, norm
from testbed.common.parameters import param
from testbed.wire.messages import Update, Vector


@dataclass(kw_only=True)
class WKAFL(EveryK):
    """Two-stage weighting of the K fastest by staleness and direction (Zhou et al., TPDS 2022)."""

    clip: float = param(100.0, "B: largest norm of a gradient", above=0)
    theta: float = param(0.0, "θ: smallest cosine to the estimated gradient", at_least=-1, at_most=1)
    beta: float = param(2.0, "β: how much more nearer gradients count", at_least=0)
    c: float = param(0.1, "c: how much staleness lowers the learning rate", at_least=0)

    unused: ClassVar[str] = "its direction is too far from the estimated gradient"

    def new_model(self, updates: Sequence[Update], server: Server) -> tuple[Vector, dict[int, float]]:
        # Δ = −η g has the opposite direction for all devices alike; B limits g
        longest = self.clip * server.job.lr
        scales = [longest / max(norm(update.delta), longest) for update in updates]  # clip
        tau = [server.staleness(update) for update in updates]
        p = normalised([(math.e / 2) ** -each for each in tau])  # stage 1
        estimate = np.zeros_like(server.model)
        for update, scale, weight in zip(updates, scales, p, strict=True):
            add_scaled(estimate, weight * scale, update.delta)
        cosines = [cosine(update.delta, estimate) for update in updates]  # stage 2
        least = min(self.theta, max(cosines))
        kept = [i for i, each in enumerate(cosines) if each >= least]
        q = normalised([math.exp(self.beta * cosines[i]) for i in kept])
        lr_factor = 1 / (1 + self.c * sum(tau[i] for i in kept) / len(kept))  # η_t/η
        model = server.model.copy()
        applied = {}
        for i, weight in zip(kept, q, strict=True):
            applied[updates[i].ticket] = lr_factor * weight * scales[i]
            add_scaled(model, lr_factor * weight * scales[i], updates[i].delta)
        return model, applied
