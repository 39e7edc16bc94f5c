"""Sync-FL: the synchronous scheme that AFL is compared with.

Forootani, Iervolino: Asynchronous Federated Learning: A Scalable Approach for Decentralized Machine Learning. 2025,
section VI, Fig. 6 and 10.

Symbols
    C       fraction of the devices chosen for a round
    τ_c     execution time of device c
    τ_t     max τ_c − min τ_c over the last round, in seconds
    γ0, α   initial local rate (``training.lr``); how much τ_t lowers it
    e       local epoch, from 0

Rule
    S_t ← max(⌊C·N⌋, 1) devices at random, without replacement; wait for all of them
    x_{t+1} = (1/|S_t|) Σ_{c∈S_t} x_c
    local rate in epoch e: γ0 / (√(e + 1) · (1 + α·τ_t))

Departures
    The printed rate puts everything under one root; this is what the authors' program computes (see ``afl``).
    Their program does not say which rate Sync-FL has; it has the same one here, so that the two differ in nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from aggregator.pacing import EveryRound
from aggregator.strategy import Server
from testbed.messages import Job, Update
from testbed.parameters import param


@dataclass(kw_only=True)
class SyncFL(EveryRound):
    """Synchronous rounds, plain mean, delay-aware local rate (Forootani and Iervolino, 2025)."""

    alpha: float = param(0.01, "α: how much the spread of delays lowers the local rate", at_least=0, at_most=1)

    def share(self, update: Update, server: Server) -> float:
        return 1.0

    def job(self, device: str, server: Server) -> Job:
        return self._spread.slowed(server.job, self.alpha)
