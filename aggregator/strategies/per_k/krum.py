"""Krum uses the one of K updates that is nearest to its neighbours, Multi-Krum the mean of the m nearest ones.

Blanchard, El Mhamdi, Guerraoui, Stainer: Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent.
NeurIPS 2017 (preprint arXiv:1703.02757): the Krum function, and its variant Multi-Krum.

Symbols
    K       updates per version; n in the paper
    f       Byzantine devices among them; 2f + 2 < K
    V_i     −Δ_i/η, the vector that device i proposes
    i → j   V_j is one of the K − f − 2 vectors that are nearest to V_i, without V_i itself
    m       updates that are used; 1 is Krum

Rule
    s(i) = Σ_{i→j} ‖V_i − V_j‖²
    Krum:        x_{t+1} = x_t − η·V_{i*},  s(i*) ≤ s(i) for all i      =  x_t + Δ_{i*}
    Multi-Krum:  x_{t+1} = x_t + (1/m) Σ Δ_i over the m smallest s(i)

Departures
    The paper is synchronous: all vectors are gradients of x_t. Here K updates make a version, as in SAFL, and a slow
    device contributes a Δ_i of an older model.
    Of equal scores, that of the update which arrived first counts as the smallest; the paper takes the smallest number
    of the device.
    When fewer than K updates can still arrive, the rule is applied to those that have arrived, with at least one
    neighbour each; at most as many as arrived are used. So few updates do not tolerate f Byzantine ones.
    An update that is not used is rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from aggregator.pacing import EveryK
from aggregator.strategy import Server
from aggregator.strategy.vectors import add_scaled, distance
from testbed.common.parameters import ParameterError, param
from testbed.wire.messages import Update, Vector


@dataclass(kw_only=True)
class Krum(EveryK):
    """Uses the update that is nearest to its neighbours, against Byzantine devices (Blanchard et al., NeurIPS 2017)."""

    k: int = param(5, "K: updates per version", at_least=1)
    f: int | None = param(
        None, "f: Byzantine devices among K; 2f + 2 is below K; unset: the most that K tolerates", at_least=0
    )
    m: int = param(1, "m: updates that are used; 1: Krum, more: Multi-Krum", at_least=1)

    unused: ClassVar[str] = "it is too far from the other updates"

    def check(self, devices: int) -> None:
        super().check(devices)
        if self.f is not None and 2 * self.f + 2 >= self.k:
            raise ParameterError("f", f"is {self.f}; 2f + 2 must be below k, which is {self.k}: lower f, or raise k")
        if self.m > self.k:
            raise ParameterError("m", f"is {self.m}; it must be at most k, which is {self.k}: lower m, or raise k")

    @property
    def byzantine(self) -> int:
        """The f of the rule."""
        return max((self.k - 3) // 2, 0) if self.f is None else self.f

    def new_model(self, updates: Sequence[Update], server: Server) -> tuple[Vector, dict[int, float]]:
        scores = self._scores([update.delta for update in updates])
        best = sorted(range(len(updates)), key=scores.__getitem__)[: self.m]
        model = server.model.copy()
        for i in best:
            add_scaled(model, 1 / len(best), updates[i].delta)
        return model, {updates[i].ticket: 1 / len(best) for i in best}

    def _scores(self, deltas: Sequence[Vector]) -> list[float]:
        """s(i) of each update, from its Δ: the distances of the V are those of the Δ, divided by η."""
        squares = [[0.0] * len(deltas) for _ in deltas]
        for i, one in enumerate(deltas):
            for j in range(i):
                squares[i][j] = squares[j][i] = distance(one, deltas[j]) ** 2
        neighbours = max(len(deltas) - self.byzantine - 2, 1)
        # the first of the sorted distances is that of an update to itself, 0
        return [sum(sorted(row)[1 : neighbours + 1]) for row in squares]
