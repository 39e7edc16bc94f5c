"""AUDG: at every tick, the gradients that arrived in the interval are applied, however old.

Hao, Cui, Yang, Wu, Feng, Hu: The Impact Analysis of Delays in Asynchronous Federated Learning with Data Heterogeneity
for Edge Intelligence. 2025, arXiv:2503.04052, Algorithms 1 and 2.

Symbols
    t       iteration: one interval of wall-clock time
    I_t     devices whose upload arrived in interval t
    λ_i     weight of device i, Σλ = 1 over all N devices
    τ_i(t)  iterations since the model that the gradient was computed on                    (1)
    φ_i     probability that an upload arrives; one attempt per interval (``phi`` of a device)
    Δ_i     −η ∇f_i(w^{t−τ_i(t)}), the update of device i

Rule
    w^{t+1} = w^t − η Σ_{i∈I_t} λ_i ∇f_i(w^{t−τ_i(t)})  =  w^t + Σ_{i∈I_t} λ_i Δ_i          (13)
    only I_t receive w^{t+1}; at the end every device receives the final model, repeatedly until it has arrived
    normalised = true:  w^{t+1} = w^t + Σ_{i∈I_t} λ_i Δ_i / Σ_{i∈I_t} λ_i

Readings
    As printed, the steps of AUDG are Σλφ of PSURDG's in the mean, so that AUDG falls far behind as delays grow. In the
    paper's tables the two differ by a few points at all delays, which fits ``normalised``; the paper does not mention
    it.

Departures
    The paper takes one gradient step per job; here ``training.steps`` sets their number, and Δ_i is their sum.
    An interval without arrivals is an iteration that changes nothing. If a device was restarted within an interval, its
    last update counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from aggregator.pacing import EveryTick
from aggregator.strategy import Server
from testbed.wire.messages import Update


@dataclass(kw_only=True)
class AUDG(EveryTick):
    """Asynchronous updates with delayed gradients, at fixed intervals (Hao et al., 2025)."""

    broadcasts_final_model: ClassVar[bool] = True  # Algorithm 2, line 11

    def weights(self, updates: Sequence[Update], server: Server) -> Sequence[float]:
        total = self.total_share(server, [update.device for update in updates])
        return [self.share(update.device, server) / total for update in updates]  # λ_i, (13)
