"""FedAsync: every local model is mixed into the global one, with a smaller weight if it is staler.

Xie, Koyejo, Gupta: Asynchronous Federated Optimization. OPT 2020, arXiv:1903.03934. Equations (40) and (41) of Wang
et al. 2022 (AsyncFedED), arXiv:2205.13797.

Symbols
    α       mixing weight; it never changes
    τ       staleness in versions, counted from the download; a fresh update has τ = 0 (Xie et al.)
            tau_unit = "seconds": from the moment of the download to that of the update (Wang et al., t − τ there)
    s(τ)    damping: constant 1; polynomial (τ + 1)^−a; hinge 1 if τ ≤ b, else 1 / (a·(τ − b) + 1)
    x_i     local model of the device = base + Δ

Rule
    α_t = α · s(τ)                                   (41)
    x_{t+1} = (1 − α_t) x_t + α_t x_i                (40)
    Option II of Xie et al., with ρ: the device minimises f_i(x) + (ρ/2)·‖x − x_base‖²

Readings
    In seconds, τ begins when the device has received the model and starts its job (``Update.started``), and ends when
    the update is due; a strict replay has the recorded moments. After a lost download with ``on_lost_download =
    "old_base"``, it begins when the device starts to train on the model that it has.

Departures
    None. Public implementations often omit the + 1 of the hinge, or replace α by α_t.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from aggregator.pacing import EveryUpdate
from aggregator.strategy import Server
from aggregator.strategy.vectors import mixed
from testbed.common.parameters import param
from testbed.wire.messages import Update, Vector
from testbed.wire.training_job import Job


@dataclass(kw_only=True)
class FedAsync(EveryUpdate):
    """Mixes each arriving model by its staleness (Xie et al., OPT 2020)."""

    alpha: float = param(0.6, "α: mixing weight", above=0, below=1)
    damping: str = param("polynomial", "s(τ)", choices=("constant", "polynomial", "hinge"))
    a: float = param(0.5, "a of the polynomial and the hinge", above=0)
    b: float = param(4.0, "b of the hinge: largest staleness that is not damped", at_least=0)
    tau_unit: str = param("versions", "what τ counts, and so the unit of b", choices=("versions", "seconds"))
    rho: float | None = param(None, "ρ of Option II: the proximal term; unset: training.proximal", at_least=0)

    def s(self, tau: float) -> float:
        if self.damping == "polynomial":
            return float((tau + 1) ** -self.a)
        if self.damping == "hinge" and tau > self.b:
            return 1 / (self.a * (tau - self.b) + 1)
        return 1.0

    def job(self, device: str, server: Server) -> Job:
        return server.job if self.rho is None else replace(server.job, proximal=self.rho)  # Option II

    def new_model(self, update: Update, server: Server) -> tuple[Vector, float]:
        tau = server.staleness(update) if self.tau_unit == "versions" else max(0.0, server.now - update.started)
        alpha_t = self.alpha * self.s(tau)  # (41)
        base = server.model_at(update.version)  # x_i = base + Δ
        return mixed(server.model, alpha_t, base, update.delta), alpha_t  # (40)
