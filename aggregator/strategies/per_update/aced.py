"""ACED: ACE without the gradients of devices that have not answered for too many versions.

Chang, Yao, Krishnamurthy, Shelton, Chakraborty, Swami, Oymak, Roy-Chowdhury: Mitigating Participation Imbalance Bias in
Asynchronous Federated Learning. 2025, arXiv:2511.19066.

Symbols
    t           versions made so far
    g_i         −Δ_i/``training.lr``, the latest gradient of device i, summed over its local steps
    t_i^start   version that was sent to device i when g_i had arrived
    τ_algo      largest delay of a gradient that is used
    A(t)        devices with t − t_i^start ≤ τ_algo; n_t is their number
    η           server learning rate; ``eta`` is η/``training.lr``

Rule
    on each arrival of a new g_j:
    u = (1/n_t) Σ_{i∈A(t)} g_i
    w ← w − η u

Departures
    The rule is as described in the abstract, in reviews, and in the public program xchang1121/AsyncFL, which has it
    under the earlier name AC-AFL-BDA. The paper's own listing was not available for a comparison.
    As in that program, t_j^start is set before A(t) is selected: the device of the arriving gradient is always in A(t),
    however old the model was that it was computed on, and so A(t) is never empty. A gradient that has left A(t) is
    dropped; its device counts again when it sends the next one.
    The paper takes one gradient step per job; here ``training.steps`` sets their number, and Δ_i is their sum.
    That program first collects the gradient of every device on the first model; here A(t) begins with the first device
    that sends one.
    The default of ``eta`` is 1/n_t, for the reason given in ``ace``. That of τ_algo is the program's for 100 devices.
    Σ Δ_i is updated at each arrival, and kept in double precision: see ``LatestUpdates``.
    The weight in the trace is that of the arriving update. Those of the other devices in A(t) have the same.
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
class ACED(EveryUpdate):
    """All-client engagement, delay-aware: without gradients that are too old (Chang et al., 2025)."""

    tau_algo: int = param(50, "τ_algo: versions after which the latest gradient of a device does not count", at_least=0)
    eta: float | None = param(None, "η: server learning rate, as a multiple of training.lr; unset: 1/n_t", above=0)

    _latest: LatestUpdates | None = field(default=None, init=False, repr=False)
    _start: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    """t_i^start of the devices in A(t)."""

    def new_model(self, update: Update, server: Server) -> tuple[Vector, float]:
        latest = self._latest = self._latest or LatestUpdates(server.model)
        latest.replace(update.device, update.delta)
        self._start[update.device] = server.version + 1
        for device in [name for name, start in self._start.items() if server.version - start > self.tau_algo]:
            latest.remove(device)
            del self._start[device]
        share = 1 / latest.devices  # 1/n_t
        weight = (self.eta or share) * share
        return plus_scaled(server.model, weight, latest.total), weight  # w ← w − η u
