"""Random label skew: each label is spread over the devices by a draw from a Dirichlet distribution.

Yurochkin et al.: Bayesian Nonparametric Federated Learning of Neural Networks. ICML 2019. ASAFL uses α = 0.1 and 0.01,
AFL 0.5. Devices also differ in their number of samples: there is a draw for each label, not for each device.

    p_l ~ Dirichlet(α, …, α) over the devices;  device i has the share p_{l,i} of the samples of label l

Values have no classes: all samples count as one label, and a single draw makes a skew of quantity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from testbed.common.parameters import param
from testbed.learning.data.dataset import Indices, Subset
from testbed.learning.splits.minimum import AtLeast


@dataclass(frozen=True, slots=True, kw_only=True)
class Dirichlet(AtLeast):
    """Each label spread over the devices by Dirichlet(α); for values, which have no labels, a skew of quantity."""

    alpha: float = param(0.5, "α: the smaller, the more uneven", above=0, at_most=1e9)
    remedy: ClassVar[str] = "a larger alpha"

    def assign(self, part: Subset, devices: int, rng: np.random.Generator) -> list[Indices]:
        self.demand(len(part), devices)
        labels = part.labels
        pieces: list[list[Indices]] = [[] for _ in range(devices)]
        for label in np.unique(labels):
            members = rng.permutation(np.flatnonzero(labels == label))
            shares = rng.dirichlet(np.full(devices, self.alpha))
            cuts = np.round(np.cumsum(shares)[:-1] * len(members)).astype(int)
            for own, piece in zip(pieces, np.split(members, cuts), strict=True):
                own.append(piece)
        return self.settle([np.concatenate(own) for own in pieces])
