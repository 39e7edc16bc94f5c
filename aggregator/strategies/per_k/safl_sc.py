"""SAFL-SC: SAFL with staleness control. Devices that are too far behind are restarted on the new model.

Chen, Yi, Shin, Nallanathan: Adaptive Semi-Asynchronous Federated Learning over Wireless Networks. 2024 (ASAFL), a
baseline of section V; after Ma, Xu, Xu, Jiang, Huang, Huang: FedSA: A Semi-Asynchronous Federated Learning Mechanism in
Heterogeneous Edge Computing. IEEE JSAC 39(12), 2021.

Symbols
    K, S_t, g_n     as in SAFL
    τ_n             versions by which device n is behind x_{t+1}
    τ_0             threshold

Rule
    x_{t+1} = x_t − η · (1/K) Σ_{n∈S_t} g_n  =  x_t + (1/K) Σ_{n∈S_t} Δ_n
    x_{t+1} goes to S_t, and to every device with τ_n > τ_0, which stops its training and starts over with it

Departures
    A restarted device stops when the download of the new model ends, not before; the time that it spent is in the
    trace (``superseded``, ``abandoned``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from aggregator.pacing import EveryK
from aggregator.strategy import Server
from testbed.common.parameters import param


@dataclass(kw_only=True)
class SAFLSC(EveryK):
    """SAFL that restarts devices which are too stale (baseline of Chen et al., 2024)."""

    tau_0: int = param(4, "τ_0: devices that are further behind are restarted", at_least=0)

    # x_{t+1} = x_t + (1/K) Σ Δ_n: the mean is the default of EveryK

    def interrupts(self, server: Server) -> Iterable[str]:
        return [device for device, base in server.busy.items() if server.version + 1 - base > self.tau_0]
