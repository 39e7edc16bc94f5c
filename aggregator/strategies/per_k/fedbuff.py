"""FedBuff: a buffer of K updates, damped by staleness; no device waits for it.

Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek, Huba: Federated Learning with Buffered Asynchronous Aggregation.
AISTATS 2022, arXiv:2106.06639, Algorithm 1.

Symbols
    K       updates in the buffer when it is used
    τ_i     staleness in versions; a fresh update has τ = 0
    η_s     server learning rate: ``eta``

Rule
    s(τ) = 1/√(1 + τ)
    x_{t+1} = x_t + η_s · (1/K) Σ_{i∈buffer} s(τ_i) Δ_i

Departures
    With ``optimizer``, the server takes a step of FedOpt along Δ_t = (1/K) Σ s(τ_i) Δ_i: momentum, adam, yogi or
    adagrad (``aggregator/pacing/server_optimiser.py``). The weights in the trace are then those of the updates in Δ_t,
    and ``tau`` is FedOpt's τ, which has nothing to do with staleness.
    The paper's server keeps a number of devices at work, and draws another one when one has delivered. ``in_flight``
    does the same. Without it, all devices are at work, and one that has delivered continues at once with the current
    model. In both cases a device may be in the buffer twice.
    The weights are not normalised, as printed: a stale buffer makes a smaller step.
    When fewer than K updates can still arrive, the buffer is used as it is, divided by the number of updates in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from aggregator.pacing import Buffered, ServerOptimiser, weighed, weighted_sum
from aggregator.strategy import Server
from testbed.wire.messages import Update, Vector


@dataclass(kw_only=True)
class FedBuff(ServerOptimiser, Buffered):
    """Buffered asynchronous aggregation (Nguyen et al., AISTATS 2022)."""

    momentum_adds_up: ClassVar[bool] = True  # with 1, it diverges: updates are stale

    def weights(self, updates: Sequence[Update], server: Server) -> Sequence[float]:
        scale = (self.server_rate if self.optimizer == "sgd" else 1.0) / len(updates)
        return [scale / math.sqrt(1 + server.staleness(update)) for update in updates]

    def new_model(self, updates: Sequence[Update], server: Server) -> tuple[Vector, dict[int, float]]:
        if self.optimizer == "sgd":
            return super().new_model(updates, server)
        weights = self.weights(updates, server)
        return self.step(weighted_sum(updates, weights), server), weighed(updates, weights)
