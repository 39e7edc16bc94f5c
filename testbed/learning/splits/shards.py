"""Label skew by shards: samples are sorted by label and cut into shards, of which each device gets some at random.

McMahan et al.: Communication-Efficient Learning of Deep Networks from Decentralized Data. AISTATS 2017,
arXiv:1602.05629, section 3: 200 shards of 300 images of MNIST for 100 devices, two for each.

    shard s = sorted samples s·S … (s+1)·S − 1;  a device has ``per_device`` of the M · ``per_device`` shards

S is ``size``, or as large as possible; what is left over is not assigned. ShardPartitioner of flwr-datasets with
``num_shards_per_partition``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from testbed.common.parameters import ParameterError, param
from testbed.learning.data.dataset import Indices, Subset
from testbed.learning.splits.split import Split, demand, sorted_by_label


@dataclass(frozen=True, slots=True, kw_only=True)
class Shards(Split):
    """Samples sorted by label and cut into shards of equal size; each device has some of them at random."""

    per_device: int = param(2, "shards of a device", at_least=1)
    size: int | None = param(None, "samples of a shard; unset: as many as possible", at_least=1)

    def assign(self, part: Subset, devices: int, rng: np.random.Generator) -> list[Indices]:
        demand(len(part), devices)
        wanted = devices * self.per_device
        size = len(part) // wanted if self.size is None else self.size
        if size < 1:
            most = f"{devices} devices can have at most {len(part) // devices} each of {len(part)} training samples"
            raise ParameterError("per_device", f"is {self.per_device}; {most}: set it lower, or use fewer devices")
        if size * wanted > len(part):
            most = f"{wanted} shards can have at most {len(part) // wanted} each of {len(part)} training samples"
            raise ParameterError("size", f"is {size}; {most}: set it lower, or use fewer devices")
        order = sorted_by_label(rng.permutation(len(part)), part)
        shards = order[: len(part) // size * size].reshape(-1, size)
        chosen = rng.permutation(len(shards))[:wanted].reshape(devices, self.per_device)
        return [np.sort(shards[own].ravel()) for own in chosen]
