"""FedAsync: every local model is mixed into the global one, with a smaller weight if it is staler.

Xie, Koyejo, Gupta: Asynchronous Federated Optimization. OPT 2020. Equations (40) and (41) of Wang et al. 2022.

Symbols
    α       mixing weight; it never changes
    τ       staleness in versions, counted from the download; a fresh update has τ = 0
    s(τ)    damping: constant 1; polynomial (τ + 1)^−a; hinge 1 if τ ≤ b, else 1 / (a·(τ − b) + 1)
    x_i     local model of the device = base + Δ

Rule
    α_t = α · s(τ)                                   (41)
    x_{t+1} = (1 − α_t) x_t + α_t x_i                (40)

Departures
    None. Public implementations often omit the + 1 of the hinge, or replace α by α_t.
"""

from __future__ import annotations

from dataclasses import dataclass

from aggregator.pacing import EveryUpdate
from aggregator.strategy import Server
from aggregator.strategy.vectors import mixed
from testbed.common.parameters import param
from testbed.wire.messages import Update, Vector


@dataclass(kw_only=True)
class FedAsync(EveryUpdate):
    """Mixes each arriving model by its staleness (Xie et al., OPT 2020)."""

    alpha: float = param(0.6, "α: mixing weight", above=0, below=1)
    damping: str = param("polynomial", "s(τ)", choices=("constant", "polynomial", "hinge"))
    a: float = param(0.5, "a of the polynomial and the hinge", above=0)
    b: float = param(4.0, "b of the hinge: largest staleness that is not damped", at_least=0)

    def s(self, tau: int) -> float:
        if self.damping == "polynomial":
            return float((tau + 1) ** -self.a)
        if self.damping == "hinge" and tau > self.b:
            return 1 / (self.a * (tau - self.b) + 1)
        return 1.0

    def new_model(self, update: Update, server: Server) -> tuple[Vector, float]:
        alpha_t = self.alpha * self.s(server.staleness(update))  # (41)
        base = server.model_at(update.version)  # x_i = base + Δ
        return mixed(server.model, alpha_t, base, update.delta), alpha_t  # (40)
