"""ACE: each arriving update makes a version with the mean of the latest gradients of all devices.

Chang, Yao, Krishnamurthy, Shelton, Chakraborty, Swami, Oymak, Roy-Chowdhury: Mitigating Participation Imbalance Bias in
Asynchronous Federated Learning. 2025, arXiv:2511.19066.

Symbols
    N       devices; the paper's n
    g_i     −Δ_i/``training.lr``, the latest gradient of device i, summed over its local steps; 0 before its first
    η       server learning rate; ``eta`` is η/``training.lr``

Rule
    on each arrival of a new g_j:
    u = (1/N) Σ_{i=1}^N g_i
    w ← w − η u

Departures
    The rule is as described in the abstract, in reviews, and in the public program xchang1121/AsyncFL, which has it
    under the earlier name AC-AFL. The paper's own listing was not available for a comparison.
    The paper takes one gradient step per job; here ``training.steps`` sets their number, and Δ_i is their sum.
    That program first collects the gradient of every device on the first model. Here a device that has not sent
    one yet counts as 0, so that a device that never answers cannot stop the run.
    The default of ``eta`` is 1/N. A gradient is applied at every arrival until its device sends the next one, about N
    times: with 1/N it is applied about once in sum. With a learning rate that does not fall with N a large fleet
    diverges.
    Σ Δ_i is updated at each arrival, and kept in double precision: see ``LatestUpdates``.
    N counts every device that has been present so far. The latest gradient of a device that has left still counts.
    The weight in the trace is that of the arriving update. Those of the other devices have the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from aggregator.pacing import EveryUpdate
from aggregator.strategy import Server
from aggregator.strategy.latest_updates import LatestUpdates
from aggregator.strategy.vectors import plus_scaled
from testbed.common.parameters import param
from testbed.wire.messages import Update, Vector


@dataclass(kw_only=True)
class ACE(EveryUpdate):
    """All-client engagement: the latest gradients of all devices at each arrival (Chang et al., 2025)."""

    eta: float | None = param(None, "η: server learning rate, as a multiple of training.lr; unset: 1/N", above=0)

    _latest: LatestUpdates | None = field(default=None, init=False, repr=False)

    def new_model(self, update: Update, server: Server) -> tuple[Vector, float]:
        latest = self._latest = self._latest or LatestUpdates(server.model)
        latest.replace(update.device, update.delta)
        share = 1 / len(server.known)
        weight = (self.eta or share) * share
        return plus_scaled(server.model, weight, latest.total), weight  # w ← w − η u
