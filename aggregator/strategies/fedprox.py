"""FedProx: FedAvg whose devices are held near the model that they were sent.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith: Federated Optimization in Heterogeneous Networks. MLSys 2020,
Algorithm 2. Also eq. (39) of Wang et al. 2022 (AsyncFedED).

Symbols
    f_i     loss of device i
    μ       strength of the proximal term; 0 is FedAvg
    C, n_i  as in FedAvg

Rule
    device: minimise h_i(x) = f_i(x) + (μ/2)·‖x − x_t‖²                         (39)
    x_{t+1} = Σ_{i∈S_t} (n_i / Σn) x_i

Departures
    Averaged by samples, as Wang et al. have it; Algorithm 2 draws devices by their samples and averages equally.
    Inexact local solutions (the γ of Li et al.) are what ``training.steps`` gives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from aggregator.pacing import EveryRound
from aggregator.strategy import Server
from testbed.common.parameters import param
from testbed.wire.messages import Job, Update


@dataclass(kw_only=True)
class FedProx(EveryRound):
    """FedAvg with a proximal term in the local loss (Li et al., MLSys 2020)."""

    mu: float = param(0.1, "μ: strength of the proximal term, in place of training.proximal", at_least=0)

    def job(self, device: str, server: Server) -> Job:
        return replace(server.job, proximal=self.mu)  # (39); it travels with the dispatch

    def share(self, update: Update, server: Server) -> float:
        return float(update.samples)
