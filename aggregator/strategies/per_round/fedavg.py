"""FedAvg: rounds over a random fraction of the devices, averaged by their number of samples.

McMahan, Moore, Ramage, Hampson, Agüera y Arcas: Communication-Efficient Learning of Deep Networks from
Decentralized Data. AISTATS 2017, arXiv:1602.05629, Algorithm 1. Also eq. (38) of Wang et al. 2022 (AsyncFedED).

Symbols
    C       fraction of the devices chosen for a round
    n_i     samples of device i
    Δ_i     x_i − x_t, the update of device i

Rule
    S_t ← max(⌊C·N⌋, 1) devices at random, without replacement
    x_{t+1} = Σ_{i∈S_t} (n_i / Σn) x_i  =  x_t + Σ_{i∈S_t} (n_i / Σn) Δ_i

Departures
    With ``optimizer`` or ``eta``, the server takes another step along Σ (n_i / Σn) Δ_i: see ``fedopt``.
    Eq. (38) of the AsyncFedED paper prints a further factor 1/m. It is a misprint: the model would shrink.
    With ``deadline``, a round ends with the updates that have arrived; later ones are rejected.
"""

from __future__ import annotations

from dataclasses import dataclass

from aggregator.pacing import EveryRound, ServerOptimiser
from aggregator.strategy import Server
from testbed.wire.messages import Update


@dataclass(kw_only=True)
class FedAvg(ServerOptimiser, EveryRound):
    """Synchronous rounds, averaged by samples (McMahan et al., AISTATS 2017)."""

    def share(self, update: Update, server: Server) -> float:
        return float(update.samples)  # n_i; the pace divides by Σn
