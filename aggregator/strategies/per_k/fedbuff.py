"""FedBuff: a buffer of K updates, damped by staleness; no device waits for it.

Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek, Huba: Federated Learning with Buffered Asynchronous Aggregation.
AISTATS 2022, arXiv:2106.06639, Algorithm 1.

Symbols
    K       updates in the buffer when it is used
    τ_i     staleness in versions; a fresh update has τ = 0
    η_s     server learning rate

Rule
    s(τ) = 1/√(1 + τ)
    x_{t+1} = x_t + η_s · (1/K) Σ_{i∈buffer} s(τ_i) Δ_i

Departures
    The paper's server draws another device when one has delivered; here the same device continues at once with the
    current model. So a fast device may be in the buffer twice.
    The weights are not normalised, as printed: a stale buffer makes a smaller step.
    When fewer than K updates can still arrive, the buffer is used as it is, divided by the number of updates in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from aggregator.pacing import EveryK
from aggregator.strategy import Server
from testbed.common.parameters import param
from testbed.wire.messages import Update


@dataclass(kw_only=True)
class FedBuff(EveryK):
    """Buffered asynchronous aggregation (Nguyen et al., AISTATS 2022)."""

    eta: float = param(1.0, "η_s: server learning rate", above=0)

    def check(self, devices: int) -> None:
        """Any K fits any fleet: no device waits, so each may be in the buffer several times."""

    def device_waits(self, update: Update, server: Server) -> bool:
        return False

    def weights(self, updates: Sequence[Update], server: Server) -> Sequence[float]:
        scale = self.eta / len(updates)
        return [scale / math.sqrt(1 + server.staleness(update)) for update in updates]
