"""CA²FL: a buffer of K updates, calibrated by the last update of every device, which the server caches.

Wang, Cao, Wu, Chen, Chen: Tackling the Data Heterogeneity in Asynchronous Federated Learning with Cached Update
Calibration. ICLR 2024, openreview:4aywmeb97I, Algorithm 2.

Symbols
    K       updates in the buffer when it is used; the paper's M
    N       devices; the paper's n
    h_t^i   last update of device i before the buffer was opened; 0 before its first
    h_t     (1/N) Σ_i h_t^i
    η       server learning rate

Rule
    v_t = h_t + (1/K) Σ_{i∈buffer} (Δ_i − h_t^i)
    x_{t+1} = x_t + η v_t
    h_{t+1}^i = Δ_i for the devices of the buffer, h_t^i for all others

Departures
    The rule is as described in public programs that name Algorithm 2 as their source; they agree with each other.
    The paper's server draws another device when one has delivered; here the same device continues at once with the
    current model, as with FedBuff. A device may be in the buffer twice: both its updates are calibrated by the same
    h_t^i, and the later one is cached.
    The paper tunes η. The default is K/N, at most 1: an update is applied with each buffer until its device sends the
    next one, about N/K times, so with K/N it is applied about once in sum. With a learning rate that does not fall with
    N a large fleet diverges.
    N counts every device that has been present so far. The last update of a device that has left still counts.
    When fewer than K updates can still arrive, the buffer is used as it is, divided by the number of updates in it.
    The authors' variant with less memory (MF-CA²FL) is not implemented.
    N·h_t is kept in double precision and updated with each buffer: see ``LatestUpdates``.
    The weight of an update in the trace is η/K; that of the cached updates is not in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from aggregator.pacing import Buffered, weighed, weighted_sum
from aggregator.strategy import Server
from aggregator.strategy.latest_updates import LatestUpdates
from aggregator.strategy.vectors import add_scaled, plus_scaled
from testbed.common.parameters import param
from testbed.wire.messages import Update, Vector


@dataclass(kw_only=True)
class CA2FL(Buffered):
    """Buffered updates, calibrated by the last update of each device (Wang et al., ICLR 2024)."""

    eta: float | None = param(None, "η: server learning rate; unset: K/N, at most 1", above=0)

    _cached: LatestUpdates | None = field(default=None, init=False, repr=False)
    """h_t^i of each device, and their sum N·h_t."""

    def new_model(self, updates: Sequence[Update], server: Server) -> tuple[Vector, dict[int, float]]:
        h = self._cached = self._cached or LatestUpdates(server.model)
        eta = self.eta or min(self.k / len(server.known), 1.0)
        weights = [eta / len(updates)] * len(updates)
        model = plus_scaled(server.model, eta / len(server.known), h.total)  # x_t + η h_t
        add_scaled(model, 1.0, weighted_sum(updates, weights))
        for update, weight in zip(updates, weights, strict=True):
            cached = h.get(update.device)
            if cached is not None:
                add_scaled(model, -weight, cached)
        for update in updates:  # only now: two updates of a device are calibrated by the same h_t^i
            h.replace(update.device, update.delta)
        return model, weighed(updates, weights)
