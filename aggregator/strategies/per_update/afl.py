"""AFL: the model is the mean of the last model of each device; a fraction of the devices is in flight.

Forootani, Iervolino: Asynchronous Federated Learning: A Scalable Approach for Decentralized Machine Learning. 2025,
arXiv:2412.17723, Algorithm 1 and section VI.

Symbols
    C       fraction of the devices that is in flight; C·N is the paper's J, and N its C
    x_c     local model that device c sent last
    m       devices that have sent a model so far
    τ       staleness of an update, in versions; the paper writes τ_c for this, too
    τ_max   bound on it (Assumption 6)
    τ_c     execution time of device c
    τ_t     max τ_c − min τ_c over the last round of C·N arrivals, in seconds
    γ0, α   initial local learning rate (``training.lr``); how much τ_t lowers it
    e       local epoch, from 0

Rule
    on each arrival: x_{j+1} = Aggregate(x_c) = (1/m) Σ_c x_c, the plain mean
    an update with τ > τ_max is rejected
    whenever fewer than max(⌊C·N⌋, 1) are in flight: draw from the others, without replacement
    local learning rate in epoch e: γ0 / (√(e + 1) · (1 + α·τ_t))

Departures
    Lemma 7 and section VI define the learning rate as γ0/√(t + 1·(1 + α·τ_t)), everything under one root. The proof of
    Lemma 7 (35) and the authors' program have the form above.
    The paper draws all devices of a round together. Here one is drawn whenever a place is free, among those that are
    not in flight, so a fast device may take part twice in a round. ``in_flight`` sets C·N as a number, and ``sampling``
    another way to draw.
    The paper's text averages over the clients; the authors' program halves the distance to each arriving model
    instead, (x + x_c)/2. This is the text. Their τ_t begins at 2, ours at 0.
    Assumption 6 only assumes the bound; here an update that exceeds it is rejected.
    Σ x_c is updated at each arrival: the device's last model is subtracted and the new one added. It is kept in double
    precision, because rounding errors would stay in the mean forever.
    The last model of a device that has left still counts. ``training.lr_schedule`` is ignored. Early stopping on the
    loss is ``stop.patience``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from aggregator.pacing import DelaySpread, EveryUpdate, Executions, FractionInFlight
from aggregator.strategy import Reject, Server
from aggregator.strategy.vectors import Sum, add_scaled, plus_scaled, scaled, zero_sum
from testbed.common.parameters import param
from testbed.wire.messages import Update, Vector
from testbed.wire.training_job import Job


@dataclass(kw_only=True)
class AFL(EveryUpdate, FractionInFlight):
    """Mean of every device's latest model, a fraction in flight (Forootani and Iervolino, 2025)."""

    fraction: float = param(0.5, "C: share of the devices in flight", above=0, at_most=1)
    tau_max: int | None = param(None, "τ_max: updates staler than this are rejected", at_least=0)
    alpha: float = param(0.01, "α: how much the spread of delays lowers the local learning rate", at_least=0, at_most=1)

    _latest: dict[str, Vector] = field(default_factory=dict, init=False, repr=False)
    _sum: Sum | None = field(default=None, init=False, repr=False)
    """Σ x_c over ``_latest``."""
    _spread: DelaySpread = field(default_factory=DelaySpread, init=False, repr=False)

    def new_model(self, update: Update, server: Server) -> tuple[Vector, float]:
        if self.tau_max is not None and server.staleness(update) > self.tau_max:  # Assumption 6
            raise Reject(f"its staleness is above {self.tau_max}")
        if self._sum is None:
            self._sum = zero_sum(server.model)
        if update.device in self._latest:
            add_scaled(self._sum, -1.0, self._latest[update.device])
        self._latest[update.device] = local = plus_scaled(server.model_at(update.version), 1.0, update.delta)  # x_c
        add_scaled(self._sum, 1.0, local)
        share = 1 / len(self._latest)  # 1/m
        return scaled(self._sum, share), share

    def ended_round(self, update: Update, server: Server) -> Executions | None:
        self._spread.add(update)
        ends = len(self._spread) >= self.places(len(server.devices))
        return self._spread.close() if ends else None

    def job(self, device: str, server: Server) -> Job:
        return self._spread.slowed(server.job, self.alpha)
