"""Label skew by sorting: few samples are assigned at random, the rest is sorted by label and cut into pieces.

Zhou et al. 2024 (EAFL), type T1, with ε = 0.04.

Shares have equal size. The pieces are assigned to devices at random: neighbours in a profile often have the same speed,
and would otherwise all have the same label.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from testbed.common.parameters import param
from testbed.learning.data.dataset import Indices, Subset
from testbed.learning.splits.split import Split, cut, demand, equal, sorted_by_label


@dataclass(frozen=True, slots=True, kw_only=True)
class SortAndPartition(Split):
    """T1 of EAFL: a share ε of the samples at random, the rest sorted by label and cut into equal pieces."""

    epsilon: float = param(0.04, "ε: share of the samples that is assigned at random", at_least=0, at_most=1)

    def assign(self, part: Subset, devices: int, rng: np.random.Generator) -> list[Indices]:
        demand(len(part), devices)
        order = rng.permutation(len(part))
        random = round(self.epsilon * len(part))
        at_random = equal(random, devices)
        # the rest of an equal share of all: if both parts were cut equally, the last devices could get none of either
        in_order = equal(len(part), devices) - at_random
        rest = sorted_by_label(order[random:], part)
        places = rng.permutation(devices)
        pieces = dict(zip(places, cut(rest, in_order[places]), strict=True))
        return [
            np.sort(np.concatenate((own, pieces[device]))) for device, own in enumerate(cut(order[:random], at_random))
        ]
