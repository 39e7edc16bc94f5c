"""Server optimisers (FedOpt): the server takes the mean Δ of a version as a negative gradient, and optimises with it.

Reddi, Charles, Zaheer, Garrett, Rush, Konečný, Kumar, McMahan: Adaptive Federated Optimization. ICLR 2021,
arXiv:2003.00295, Algorithms 1 and 2. Momentum is FedAvgM (Hsu, Qi, Brown: Measuring the Effects of Non-Identical Data
Distribution for Federated Visual Classification. 2019, arXiv:1909.06335), a baseline of that paper.

Symbols
    Δ_t     mean update of a version; −Δ_t is the pseudo-gradient
    m_t     momentum; m_{−1} = 0
    v_t     second moment of each parameter; v_{−1} = τ²
    η       server learning rate
    β1, β2  decay of m and v
    τ       degree of adaptivity: the smaller, the more parameters with small updates catch up

Rule
    number by number:
    sgd         x_{t+1} = x_t + η Δ_t
    momentum    m_t = β1 m_{t−1} + Δ_t,   x_{t+1} = x_t + η m_t                         FedAvgM
    adam        v_t = β2 v_{t−1} + (1 − β2) Δ_t²                                        FedAdam
    yogi        v_t = v_{t−1} − (1 − β2) Δ_t² sign(v_{t−1} − Δ_t²)                      FedYogi
    adagrad     v_t = v_{t−1} + Δ_t²                                                    FedAdagrad
    the last three: m_t = β1 m_{t−1} + (1 − β1) Δ_t,   x_{t+1} = x_t + η m_t/(√v_t + τ)

Departures
    There is no bias correction, as in the paper. It asks for v_{−1} ≥ τ²; here both are equal. adagrad has the momentum
    of Algorithm 2, too; the paper's experiments with FedAdagrad have ``beta1 = 0``.
    The paper tunes η for each task. If it is unset, it is 1 with sgd and momentum. A strategy with stale updates may
    choose 1 − β1 with momentum, so that the steps which one Δ causes add up to Δ (``momentum_adds_up``).
    v is in double precision, because that of adagrad and yogi adds up during the whole run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from aggregator.strategy import Server
from aggregator.strategy.vectors import Sum, add_scaled, add_squares, approach_squares, plus_ratio, plus_scaled
from testbed.common.parameters import param
from testbed.wire.messages import Vector

OPTIMIZERS = ("sgd", "momentum", "adam", "yogi", "adagrad")
ADAPTIVE_RATES = {"adam": 0.02, "yogi": 0.02, "adagrad": 0.1}
"""η of the adaptive optimisers if it is unset. Steps of adagrad become smaller with time: its η is larger."""


@dataclass(kw_only=True)
class ServerOptimiser:
    """Parameters, state and step of a server optimiser. Inherit it before the pace."""

    momentum_adds_up: ClassVar[bool] = False
    """Whether η of momentum is 1 − β1 if it is unset, instead of 1."""

    optimizer: str = param("sgd", "server optimiser; see fedopt", choices=OPTIMIZERS)
    eta: float | None = param(
        None, "η: server learning rate; unset: 1 (fedbuff, momentum: 1 − β1), adam, yogi: 0.02, adagrad: 0.1", above=0
    )
    beta1: float = param(0.9, "β1: decay of the momentum; not used by sgd", at_least=0, below=1)
    beta2: float = param(0.99, "β2: decay of the second moment of adam and yogi", at_least=0, below=1)
    tau: float = param(1e-3, "τ: degree of adaptivity of adam, yogi and adagrad", above=0)

    _m: Vector | None = field(default=None, init=False, repr=False)
    _v: Sum | None = field(default=None, init=False, repr=False)

    @property
    def server_rate(self) -> float:
        """η, or its default for this optimiser."""
        if self.eta is not None:
            return self.eta
        if self.optimizer == "momentum" and self.momentum_adds_up:
            return 1 - self.beta1
        return ADAPTIVE_RATES.get(self.optimizer, 1.0)

    def step(self, mean: Vector, server: Server) -> Vector:
        """Return the next model, given Δ_t. It may be made in the memory of ``mean``."""
        if self.optimizer == "sgd":
            if self.server_rate != 1:
                mean *= np.float32(self.server_rate)
            mean += server.model
            return mean
        m = self._momentum(mean)
        if self.optimizer == "momentum":
            return plus_scaled(server.model, self.server_rate, m)
        return plus_ratio(server.model, self.server_rate, m, self._second_moment(mean), self.tau)

    def _momentum(self, delta: Vector) -> Vector:
        if self._m is None:
            self._m = np.zeros_like(delta)
        self._m *= np.float32(self.beta1)
        add_scaled(self._m, 1.0 if self.optimizer == "momentum" else 1 - self.beta1, delta)
        return self._m

    def _second_moment(self, delta: Vector) -> Sum:
        if self._v is None:
            self._v = np.full(delta.shape, self.tau**2, np.float64)
        if self.optimizer == "adam":
            self._v *= self.beta2
            add_squares(self._v, 1 - self.beta2, delta)
        elif self.optimizer == "yogi":
            approach_squares(self._v, 1 - self.beta2, delta)
        else:
            add_squares(self._v, 1.0, delta)
        return self._v
