"""Quantity skew by a power law: few devices have many samples, many devices have few.

As in the experiments of FedProx (Li et al. 2020) and in LEAF, except that labels are IID here.

    n_r ∝ r^(−a),  r = 1 … M

is the size of the share of rank r; ranks are assigned to the M devices at random, all samples are used, and sizes are
rounded so that they add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from testbed.common.parameters import param
from testbed.learning.data.dataset import Indices, Subset
from testbed.learning.splits.minimum import AtLeast


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLaw(AtLeast):
    """Random shares whose sizes follow a power law over random ranks."""

    exponent: float = param(
        1.5, "a: the share of rank r is proportional to r^(−a); 0: equal shares", at_least=0, at_most=20
    )
    remedy: ClassVar[str] = "a smaller exponent"

    def assign(self, part: Subset, devices: int, rng: np.random.Generator) -> list[Indices]:
        self.demand(len(part), devices)
        weights = np.arange(1, devices + 1, dtype=float) ** -self.exponent
        ends = np.round(np.cumsum(weights) / weights.sum() * len(part)).astype(int)
        pieces = np.split(rng.permutation(len(part)), ends[:-1])
        return self.settle([pieces[rank] for rank in rng.permutation(devices)])
