"""FedOpt: FedAvg with an optimiser on the server: FedAvgM, FedAdam, FedYogi or FedAdagrad.

Reddi, Charles, Zaheer, Garrett, Rush, Konečný, Kumar, McMahan: Adaptive Federated Optimization. ICLR 2021,
arXiv:2003.00295, Algorithms 1 and 2.

Symbols
    C, n_i  as in FedAvg
    Δ_i     x_i − x_t, the update of device i

Rule
    Δ_t = Σ_{i∈S_t} (n_i / Σn) Δ_i
    x_{t+1} = ServerOpt(x_t, −Δ_t, η, t), as in ``aggregator/pacing/server_optimiser.py``

Departures
    Algorithm 2 prints the plain mean of Δ_i; here it is weighted by samples, as in FedAvg, so that ``fedavg`` and this
    differ only in the server's step.
    The weights in the trace are those of the updates in Δ_t.
"""

from __future__ import annotations

from dataclasses import dataclass

from aggregator.pacing import OPTIMIZERS, EveryRound, ServerOptimiser
from aggregator.strategy import Server
from testbed.common.parameters import param
from testbed.wire.messages import Update


@dataclass(kw_only=True)
class FedOpt(ServerOptimiser, EveryRound):
    """FedAvg with a server optimiser: FedAvgM, FedAdam, FedYogi, FedAdagrad (Reddi et al., ICLR 2021)."""

    optimizer: str = param(
        "adam", "momentum: FedAvgM, adam: FedAdam, yogi: FedYogi, adagrad: FedAdagrad", choices=OPTIMIZERS
    )

    def share(self, update: Update, server: Server) -> float:
        return float(update.samples)
