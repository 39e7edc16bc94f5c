"""Label skew within devices of given sizes: each device draws its labels from a Dirichlet distribution of its own.

Acar et al.: Federated Learning Based on Dynamic Regularization. ICLR 2021, arXiv:2111.04263; by the authors' program:

    q_i ~ Dirichlet(α, …, α) over the labels
    until all devices are full: a device i that is not full, at random; it gets a sample of a label drawn from q_i

When a label is used up, its share is 0 on all devices, and the others are scaled up; a device for which nothing is left
draws q_i again among the labels that are left. InnerDirichletPartitioner of flwr-datasets; ``dirichlet`` with
``balanced`` is nearly the same for equal sizes, but one device after the other takes all of its samples.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.common.parameters import ParameterError, param
from testbed.learning.data.dataset import Indices, Subset
from testbed.learning.splits.split import Split, demand, equal


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerDirichlet(Split):
    """Devices of given sizes, each with labels by a Dirichlet(α) draw of its own."""

    alpha: float = param(0.5, "α: the smaller, the fewer labels has a device", above=0, at_most=1e9)
    sizes: tuple[int, ...] = param((), "samples of each device, in the order of the devices; empty: equal", at_least=1)

    def assign(self, part: Subset, devices: int, rng: np.random.Generator) -> list[Indices]:
        demand(len(part), devices)
        sizes = self._sizes(len(part), devices)
        pools = [rng.permutation(np.flatnonzero(part.labels == label)).tolist() for label in np.unique(part.labels)]
        draws = _Draws(rng.dirichlet(np.full(len(pools), self.alpha), devices), self.alpha, rng)
        shards: list[list[int]] = [[] for _ in range(devices)]
        open_devices = list(range(devices))
        while open_devices:
            place = int(rng.integers(len(open_devices)))
            device = open_devices[place]
            label = draws.label(device)
            shards[device].append(pools[label].pop())
            if not pools[label]:
                draws.close(label)
            if len(shards[device]) == sizes[device]:
                open_devices[place] = open_devices[-1]
                open_devices.pop()
        return [np.sort(np.array(shard, np.int64)) for shard in shards]

    def _sizes(self, samples: int, devices: int) -> list[int]:
        if not self.sizes:
            return [int(size) for size in equal(samples, devices)]
        if len(self.sizes) != devices:
            raise ParameterError("sizes", f"has {len(self.sizes)} numbers for {devices} devices; give one for each")
        if sum(self.sizes) > samples:
            problem = f"adds up to {sum(self.sizes)}; there are {samples} training samples: at most {samples}"
            raise ParameterError("sizes", problem)
        return list(self.sizes)


class _Draws:
    """The shares q of all devices over the labels that are left."""

    def __init__(self, shares: npt.NDArray[np.float64], alpha: float, rng: np.random.Generator) -> None:
        self._shares, self._alpha, self._rng = shares, alpha, rng
        self._left = np.ones(shares.shape[1], np.bool_)
        self._sums: dict[int, list[float]] = {}

    def label(self, device: int) -> int:
        """Draw a label that is left."""
        if device not in self._sums:
            self._sums[device] = self._summed(device)
        sums = self._sums[device]
        return bisect_right(sums, self._rng.random() * sums[-1], hi=len(sums) - 1)

    def close(self, label: int) -> None:
        """No samples of a label are left."""
        self._left[label] = False
        self._sums.clear()

    def _summed(self, device: int) -> list[float]:
        """Return running sums of the shares that are left, constant over labels that are not."""
        shares = np.where(self._left, self._shares[device], 0.0)
        if not shares.sum() > 0:
            shares[self._left] = self._rng.dirichlet(np.full(self._left.sum(), self._alpha)) + 1e-300
            self._shares[device] = shares
        last = int(np.flatnonzero(shares)[-1])  # rounding never leads beyond it
        sums: list[float] = np.cumsum(shares)[: last + 1].tolist()
        return sums
