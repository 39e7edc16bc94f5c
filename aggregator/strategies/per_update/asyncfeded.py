"""AsyncFedED: staleness as a Euclidean distance sets the global learning rate and the local steps of each device.

Wang, Yang, He, Shi, Chen: AsyncFedED: Asynchronous Federated Learning with Euclidean Distance based Adaptive Weight
Aggregation. 2022, arXiv:2205.13797, Algorithm 1.

Symbols
    Δ           x_local − x_base, the pseudo-gradient                           (4)
    γ           staleness of an update                                          (6)
    λ, ε        numerator and offset of the global learning rate; λ/ε is its maximum
    γ̄           target of the staleness
    κ           how fast the local steps change
    K_i         local steps of device i
    Γ           optional bound on γ (Assumption 4)

Rule
    γ = ‖x_t − x_base‖ / ‖Δ‖                         (6)
    η_g = λ / (γ + ε)                                (7)
    x_{t+1} = x_t + η_g Δ                            (5)
    K_i ← max(1, K_i + ⌊(γ̄ − γ)·κ⌋)                  (8)

Departures
    K is at least 1 and at most ``k_max``: while γ stays below γ̄, (8) increases K without limit.
    The paper's GMIS keeps every past model; the engine keeps those that a device still trains on.
    ‖Δ‖ = 0 has no γ: the update is rejected, as is one with γ > Γ.
    The paper's "epochs" are mini-batch steps (Algorithm 2): K counts steps, and ``training.epochs`` is refused.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, replace

from aggregator.pacing import EveryUpdate
from aggregator.strategy import Decision, Reject, Server
from aggregator.strategy.vectors import distance, norm, plus_scaled
from testbed.common.parameters import param
from testbed.wire.messages import Update, Vector
from testbed.wire.training_job import Job


@dataclass(kw_only=True)
class AsyncFedED(EveryUpdate):
    """Global learning rate from Euclidean staleness, adaptive local steps (Wang et al., 2022)."""

    sets_steps = True

    lam: float = param(1.0, "λ: numerator of the global learning rate", above=0)
    eps: float = param(1.0, "ε: offset of the staleness; λ/ε is the largest learning rate", at_least=1e-30)
    gamma_bar: float = param(3.0, "γ̄: target of the staleness", above=0)
    kappa: float = param(1.0, "κ: how fast K changes; 0 keeps it fixed", at_least=0)
    k_initial: int | None = param(None, "K of a device's first job; unset: training.steps", at_least=1, below=1 << 31)
    k_max: int = param(100, "largest K", at_least=1, below=1 << 31)
    gamma_max: float | None = param(None, "Γ: updates staler than this are rejected", above=0)

    _k: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    def new_model(self, update: Update, server: Server) -> tuple[Vector, float]:
        length = norm(update.delta)
        if length == 0:
            raise Reject("its delta is zero")
        gamma = distance(server.model, server.model_at(update.version)) / length  # (6)
        if not math.isfinite(gamma):
            raise Reject("its staleness γ is not finite")
        self._adapt(update, gamma)
        if self.gamma_max is not None and gamma > self.gamma_max:
            raise Reject(f"its staleness γ is above {self.gamma_max:g}")
        eta_g = self.lam / (gamma + self.eps)  # (7)
        return plus_scaled(server.model, eta_g, update.delta), eta_g  # (5)

    def on_join(self, device: str, server: Server) -> Decision:
        self._k.pop(device, None)  # Algorithm 1: a newly connected device begins with K_initial
        return super().on_join(device, server)

    def job(self, device: str, server: Server) -> Job:
        steps = self._k.setdefault(device, min(self.k_initial or server.job.steps, self.k_max))
        return _with_steps(server.job, steps)

    def _adapt(self, update: Update, gamma: float) -> None:
        k = update.steps + math.floor((self.gamma_bar - gamma) * self.kappa)  # (8)
        self._k[update.device] = min(max(1, k), self.k_max)


@functools.lru_cache(maxsize=1024)
def _with_steps(job: Job, steps: int) -> Job:
    return replace(job, steps=steps, epochs=0)
