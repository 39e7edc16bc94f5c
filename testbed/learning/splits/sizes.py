"""Quantity skew by given sizes: a number of samples for each device.

Hao et al. 2025 (AUDG), Table VI: 4 devices with 6250 each (small), 10000 and 3 × 5000 (medium), 17500 and 3 × 2500
(large). The paper does not say which samples. ``by_label`` is one reading: sorted by label and cut. With 25,000
samples, 2,500 of each digit, that is 7 digits for the first device and one for each of the others (large), 4 and 2
(medium), or two and a half (small).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from testbed.common.parameters import ParameterError, param
from testbed.learning.data.dataset import Indices, Subset
from testbed.learning.splits.split import Split, cut, sorted_by_label


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes(Split):
    """Disjoint shares of given sizes: random ones, or samples sorted by label and cut."""

    sizes: tuple[int, ...] = param(meaning="samples of each device, in the order of the devices", at_least=1)
    by_label: bool = param(False, "sort the samples by label before they are cut into shares; else shares are random")

    def assign(self, part: Subset, devices: int, rng: np.random.Generator) -> list[Indices]:
        if len(self.sizes) != devices:
            raise ParameterError("sizes", f"has {len(self.sizes)} numbers for {devices} devices; give one for each")
        if sum(self.sizes) > len(part):
            raise ParameterError(
                "sizes", f"adds up to {sum(self.sizes)}; there are {len(part)} training samples: at most {len(part)}"
            )
        order = rng.permutation(len(part))
        if self.by_label:
            order = sorted_by_label(order[: sum(self.sizes)], part)
        return cut(order, self.sizes)
