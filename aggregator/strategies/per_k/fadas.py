"""FADAS: a buffer of K updates, applied by AMSGrad on the server; long delays lower its learning rate.

Wang, Wang, Lu, Chen: FADAS: Towards Federated Adaptive Asynchronous Optimization. ICML 2024, arXiv:2407.18365.

Symbols
    K       updates in the buffer when it is used; the paper's M
    m, v    momentum and second moment of each parameter, v̂ the largest v so far; all begin at 0
    η, ε    server learning rate; keeps the divisor above 0
    τ_max   largest staleness in the buffer, in versions
    τ_c     delays up to this leave η as it is

Rule
    number by number:
    Δ_t = (1/K) Σ_{i∈buffer} Δ_i
    m_t = β1 m_{t−1} + (1 − β1) Δ_t
    v_t = β2 v_{t−1} + (1 − β2) Δ_t²,   v̂_t = max(v̂_{t−1}, v_t)
    η_t = η if τ_max ≤ τ_c, else min(η, 1/τ_max)
    x_{t+1} = x_t + η_t m_t/(√v̂_t + ε)

Departures
    The rule is as described in summaries of the paper. Its η_t is below η only if η > 1/τ_max, so with a usual η and
    moderate delays it changes nothing. The authors' program has η/τ_max instead (``slower = "scaled"``), and corrects
    the bias of m and v as Adam does, which is not done here.
    Without ``tau_c``, η_t = η: the paper's FADAS without delay adaptation.
    The paper's server draws another device when one has delivered; here the same device continues at once with the
    current model. So a fast device may be in the buffer twice.
    When fewer than K updates can still arrive, the buffer is used as it is, divided by the number of updates in it.
    v and v̂ are in double precision. The weights in the trace are those of the updates in Δ_t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from aggregator.pacing import Buffered, weighed, weighted_sum
from aggregator.strategy import Server
from aggregator.strategy.vectors import Sum, add_scaled, add_squares, plus_ratio, zero_sum
from testbed.common.parameters import param
from testbed.wire.messages import Update, Vector


@dataclass(kw_only=True)
class FADAS(Buffered):
    """Buffered updates, applied by AMSGrad with a delay-adaptive learning rate (Wang et al., ICML 2024)."""

    eta: float = param(0.01, "η: server learning rate", above=0)
    beta1: float = param(0.9, "β1: decay of the momentum", at_least=0, below=1)
    beta2: float = param(0.99, "β2: decay of the second moment", at_least=0, below=1)
    epsilon: float = param(1e-8, "ε: keeps the divisor above 0", above=0)
    tau_c: int | None = param(1, "τ_c: a larger staleness lowers η; unset: none does", at_least=1)
    slower: str = param(
        "capped", "η_t beyond τ_c: capped, min(η, 1/τ_max), or scaled, η/τ_max", choices=("capped", "scaled")
    )

    _m: Vector | None = field(default=None, init=False, repr=False)
    _v: Sum | None = field(default=None, init=False, repr=False)
    _v_hat: Sum | None = field(default=None, init=False, repr=False)

    def rate(self, tau_max: int) -> float:
        """η_t."""
        if self.tau_c is None or tau_max <= self.tau_c:
            return self.eta
        return self.eta / tau_max if self.slower == "scaled" else min(self.eta, 1 / tau_max)

    def new_model(self, updates: Sequence[Update], server: Server) -> tuple[Vector, dict[int, float]]:
        weights = self.weights(updates, server)
        delta = weighted_sum(updates, weights)
        if self._m is None or self._v is None or self._v_hat is None:
            self._m, self._v, self._v_hat = np.zeros_like(delta), zero_sum(delta), zero_sum(delta)
        self._m *= np.float32(self.beta1)
        add_scaled(self._m, 1 - self.beta1, delta)
        self._v *= self.beta2
        add_squares(self._v, 1 - self.beta2, delta)
        np.maximum(self._v_hat, self._v, out=self._v_hat)
        rate = self.rate(max(server.staleness(update) for update in updates))
        model = plus_ratio(server.model, rate, self._m, self._v_hat, self.epsilon)
        return model, weighed(updates, weights)
