"""Robust means of K updates, coordinate by coordinate."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aggregator.pacing.collecting import normalised, weighed
from aggregator.pacing.every_k import EveryK
from aggregator.strategy import Server
from aggregator.strategy.vectors import trimmed_mean
from testbed.common.parameters import param
from testbed.wire.messages import Update, Vector


@dataclass(kw_only=True)
class KTrimmed(EveryK):
    """x ← x + the mean of K updates in each coordinate, without the c smallest and the c largest values.

    The recorded weight of an update is its share of the values that remain, over all coordinates.
    """

    k: int = param(5, "K: updates per version", at_least=1)

    @abc.abstractmethod
    def cut(self, updates: int) -> int:
        """Return c for this number of updates: at least one value must remain."""

    def new_model(self, updates: Sequence[Update], server: Server) -> tuple[Vector, dict[int, float]]:
        model, kept = trimmed_mean([update.delta for update in updates], self.cut(len(updates)))
        np.add(model, server.model, out=model)
        return model, weighed(updates, normalised(kept))
