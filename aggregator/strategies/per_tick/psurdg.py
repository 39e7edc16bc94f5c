"""PSURDG: at every tick, the last gradient of every device is applied, whether it is new or not.

Hao, Cui, Yang, Wu, Feng, Hu: The Impact Analysis of Delays in Asynchronous Federated Learning with Data Heterogeneity
for Edge Intelligence. 2025, arXiv:2503.04052, Algorithms 1 and 3.

Symbols
    as in AUDG: t, λ_i, τ_i(t), φ_i
    Δ_i     −η ∇f_i(w^{t−τ_i(t)}), the last update received from device i; 0 before the first

Rule
    w^{t+1} = w^t − η Σ_{i=1}^N λ_i ∇f_i(w^{t−τ_i(t)})  =  w^t + Σ_{i=1}^N λ_i Δ_i          (46)
    only the devices that sent in the interval receive w^{t+1}; at the end every device receives the final model
    normalised = true:  Σ λ_i Δ_i is divided by Σ λ_i over the devices that have sent an update so far

Readings
    (46) sums over all N, whose Σλ is 1; the gradient of a device is 0 until it has sent one. So ``normalised`` makes a
    difference only at the beginning, or after a new device has joined: as printed, steps are short until every device
    has sent; normalised, they are whole from the first update on, in the direction of those that have sent. Once all
    have sent, both are the same, unlike AUDG, where ``normalised`` makes longer steps throughout.

Departures
    The paper takes one gradient step per job; here ``training.steps`` sets their number, and Δ_i is their sum.
    S = Σ n_i Δ_i is not summed over N vectors at each tick: at each arrival the device's last gradient is subtracted
    and the new one added. It is kept in double precision, as rounding errors would be applied at every tick.
    The last gradient of a device that has left still counts: that is the idea of the strategy.
    Reused gradients may point in outdated directions: longer delays need a smaller local learning rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from aggregator.pacing import EveryTick
from aggregator.strategy import Server
from aggregator.strategy.vectors import Sum, add_scaled, plus_scaled, zero_sum
from testbed.wire.messages import Update, Vector


@dataclass(kw_only=True)
class PSURDG(EveryTick):
    """Pseudo-synchronous updates that reuse delayed gradients, at fixed intervals (Hao et al., 2025)."""

    broadcasts_final_model: ClassVar[bool] = True  # Algorithm 3, line 11

    _last: dict[str, tuple[float, Update]] = field(default_factory=dict, init=False, repr=False)
    """Device → its share when its last update arrived, and that update."""
    _sum: Sum | None = field(default=None, init=False, repr=False)
    """S = Σ share_i Δ_i."""

    def new_model(self, updates: Sequence[Update], server: Server) -> tuple[Vector, dict[int, float]]:
        if self._sum is None:
            self._sum = zero_sum(server.model)
        for update in updates:
            if update.device in self._last:
                old_share, old = self._last[update.device]
                add_scaled(self._sum, -old_share, old.delta)
            share = self.share(update.device, server)
            add_scaled(self._sum, share, update.delta)
            self._last[update.device] = share, update
        if not self._last:
            return server.model, {}  # no update has arrived yet; perhaps no device has joined
        total = self.total_share(server, self._last)  # λ_i = share_i / total
        model = plus_scaled(server.model, 1 / total, self._sum)  # (46)
        return model, {update.ticket: share / total for share, update in self._last.values()}
