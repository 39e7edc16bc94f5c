"""FedProx: FedAvg with a penalty on the distance of a local model from the model that the device received.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith: Federated Optimization in Heterogeneous Networks. MLSys 2020,
arXiv:1812.06127, Algorithm 2. Also eq. (39) of Wang et al. 2022 (AsyncFedED).

Symbols
    f_i     loss of device i
    μ       strength of the proximal term; 0 is FedAvg
    C, n_i  as in FedAvg

Rule
    device: minimise h_i(x) = f_i(x) + (μ/2)·‖x − x_t‖²                         (39)
    x_{t+1} = Σ_{i∈S_t} (n_i / Σn) x_i

Departures
    The mean is weighted by samples, as in Wang et al.; Algorithm 2 draws devices by samples and uses equal weights.
    Inexact local solutions (the γ of Li et al.) result from ``training.steps``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from aggregator.pacing import EveryRound
from aggregator.strategy import Server
from testbed.common.parameters import param
from testbed.wire.messages import Update
from testbed.wire.training_job import Job


@dataclass(kw_only=True)
class FedProx(EveryRound):
    """FedAvg with a proximal term in the local loss (Li et al., MLSys 2020)."""

    mu: float = param(0.1, "μ: strength of the proximal term; replaces training.proximal", at_least=0)

    def job(self, device: str, server: Server) -> Job:
        return replace(server.job, proximal=self.mu)  # (39)

    def share(self, update: Update, server: Server) -> float:
        return float(update.samples)
