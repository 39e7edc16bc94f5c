"""Sync-FL: the synchronous baseline of AFL.

Forootani, Iervolino: Asynchronous Federated Learning: A Scalable Approach for Decentralized Machine Learning. 2025,
arXiv:2412.17723, section VI, Fig. 6 and 10.

Symbols
    C       fraction of the devices chosen for a round; C·N is the paper's J, and N its C
    x_c     local model of device c

Rule
    S_t ← max(⌊C·N⌋, 1) devices at random, without replacement; wait for all of them
    x_{t+1} = (1/|S_t|) Σ_{c∈S_t} x_c

Departures
    None. The paper does not give the local learning rate of Sync-FL; the authors' program keeps it constant, as does
    this. So Sync-FL moves further per round than AFL, whose learning rate falls with the local epoch. For a fair
    comparison set ``training.lr_schedule``.
"""

from __future__ import annotations

from dataclasses import dataclass

from aggregator.pacing import EveryRound
from aggregator.strategy import Server
from testbed.wire.messages import Update


@dataclass(kw_only=True)
class SyncFL(EveryRound):
    """Synchronous rounds, plain mean (Forootani and Iervolino, 2025)."""

    def share(self, update: Update, server: Server) -> float:
        return 1.0
