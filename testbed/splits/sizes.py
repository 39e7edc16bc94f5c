"""Quantity skew as it is told: so many samples for each device.

Hao et al. 2025 (AUDG), Table VI: 4 devices with 6250 each (small), 10000 and 3 × 5000 (medium), 17500 and 3 × 2500
(large).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from testbed.data.dataset import Indices, Part
from testbed.parameters import ParameterError, param
from testbed.splits.split import Split, cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes(Split):
    """Disjoint random shares of the sizes that are given, one for each device."""

    sizes: tuple[int, ...] = param(meaning="samples of each device, in the order of the devices", at_least=1)

    def deal(self, part: Part, devices: int, rng: np.random.Generator) -> list[Indices]:
        if len(self.sizes) != devices:
            raise ParameterError("sizes", f"has {len(self.sizes)} numbers for {devices} devices; give one for each")
        if sum(self.sizes) > len(part):
            raise ParameterError(
                "sizes", f"adds up to {sum(self.sizes)}; there are {len(part)} training samples: at most {len(part)}"
            )
        return cut(rng.permutation(len(part)), self.sizes)
