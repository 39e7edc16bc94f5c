"""Random label skew: each label is spread over the devices by a draw from a Dirichlet distribution.

Yurochkin et al.: Bayesian Nonparametric Federated Learning of Neural Networks. ICML 2019. ASAFL uses α = 0.1 and 0.01,
AFL 0.5. Devices also differ in their number of samples: there is a draw for each label, not for each device.

    p_l ~ Dirichlet(α, …, α) over the devices;  device i has the share p_{l,i} of the samples of label l

With ``balanced``, all devices have the same number of samples, and there is a draw for each device:

    q_i ~ Dirichlet(α, …, α) over the labels;  device i has about the share q_{i,l} of its samples from label l

as in Hsu, Qi, Brown: Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification,
2019, arXiv:1909.06335 (there α is multiplied by the frequency of each label). When a label is used up, the rest of the
draw counts; if nothing is left of it, the device draws again among the other labels. Devices draw in random order. With
a small α, such as ASAFL's 0.01, most devices have one label.

With ``capped``, a device that has more than its equal share of all samples gets nothing of the labels that follow, as
in the programs of Yurochkin et al. and of NIID-Bench (Li et al., ICDE 2022), in FedArtML, and in flwr-datasets with
``self_balancing``: sizes differ less, and labels more.

Values have no classes: all samples count as one label, and a single draw makes a skew of quantity (``balanced``: none).
``quantity`` does the same with classes: labels are IID, and only sizes differ (NIID-Bench, "quantity skew").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from testbed.common.parameters import ParameterError, param
from testbed.learning.data.dataset import Indices, Subset
from testbed.learning.splits.minimum import AtLeast
from testbed.learning.splits.split import equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Dirichlet(AtLeast):
    """Each label spread over the devices by Dirichlet(α); for values, which have no labels, a skew of quantity."""

    alpha: float = param(0.5, "α: the smaller, the more uneven", above=0, at_most=1e9)
    balanced: bool = param(False, "whether all devices have the same number of samples: a draw for each of them")
    capped: bool = param(False, "whether a device with more than an equal share gets nothing of further labels")
    quantity: bool = param(False, "whether only sizes differ, and labels are IID")
    remedy: ClassVar[str] = "a larger alpha"

    def assign(self, part: Subset, devices: int, rng: np.random.Generator) -> list[Indices]:
        self.demand(len(part), devices)
        for key in ("capped", "quantity"):
            if self.balanced and getattr(self, key):
                raise ParameterError(key, "is true, but with balanced all devices have the same size: leave one out")
        return self._by_device(part, devices, rng) if self.balanced else self._by_label(part, devices, rng)

    def _by_label(self, part: Subset, devices: int, rng: np.random.Generator) -> list[Indices]:
        labels = np.zeros(len(part), np.int64) if self.quantity else part.labels
        pieces: list[list[Indices]] = [[] for _ in range(devices)]
        for label in np.unique(labels):
            members = rng.permutation(np.flatnonzero(labels == label))
            shares = rng.dirichlet(np.full(devices, self.alpha))
            if self.capped:
                shares = self._capped(shares, [sum(map(len, own)) for own in pieces], len(part), rng)
            cuts = np.round(np.cumsum(shares)[:-1] * len(members)).astype(int)
            for own, piece in zip(pieces, np.split(members, cuts), strict=True):
                own.append(piece)
        return self.settle([np.concatenate(own) for own in pieces])

    def _capped(
        self, shares: npt.NDArray[np.float64], sizes: list[int], samples: int, rng: np.random.Generator
    ) -> npt.NDArray[np.float64]:
        """Return the shares without those of devices that have more than an equal share."""
        free = np.array(sizes) <= samples / len(sizes)
        left = np.where(free, shares, 0.0)
        if not left.sum() > 0:  # the draw was for devices that are full
            left[free] = rng.dirichlet(np.full(free.sum(), self.alpha))
        scaled: npt.NDArray[np.float64] = left / left.sum()
        return scaled

    def _by_device(self, part: Subset, devices: int, rng: np.random.Generator) -> list[Indices]:
        pools = [rng.permutation(np.flatnonzero(part.labels == label)) for label in np.unique(part.labels)]
        sizes = equal(len(part), devices)
        shards: list[Indices] = [np.zeros(0, np.int64)] * devices
        for device in rng.permutation(devices):
            counts = self._counts(np.array([len(pool) for pool in pools]), int(sizes[device]), rng)
            shards[device] = np.sort(np.concatenate([pool[:count] for pool, count in zip(pools, counts, strict=True)]))
            pools = [pool[count:] for pool, count in zip(pools, counts, strict=True)]
        return shards

    def _counts(self, left: Indices, size: int, rng: np.random.Generator) -> Indices:
        """Return how many of ``size`` samples a device gets from each label, of which so many are left."""
        shares, counts = rng.dirichlet(np.full(len(left), self.alpha)), np.zeros_like(left)
        while (missing := size - counts.sum()) > 0:
            free = counts < left
            if not shares[free].sum() > 0:
                shares = np.zeros(len(left))
                shares[free] = rng.dirichlet(np.full(free.sum(), self.alpha))
            wanted = rng.multinomial(missing, np.where(free, shares, 0) / shares[free].sum())
            counts = np.minimum(counts + wanted, left)
        return counts
