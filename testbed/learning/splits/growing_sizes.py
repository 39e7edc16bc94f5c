"""Quantity skew by a growing series: the share of device i is proportional to i, i² or eⁱ; labels are IID.

The partitioners LinearPartitioner, SquarePartitioner and ExponentialPartitioner of flwr-datasets (Flower), which come
from no paper:

    n_i ∝ f(i),  i = 1 … M,  f(i) = i, i², exp(i)

is rounded down, and the largest device gets the rest. A device gets at least one sample, which the largest gives:
with exp, the first of 15 devices would have less than one in a million. (There, that is an error, and samples are
assigned in the order of the file; here at random.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.common.parameters import param
from testbed.learning.data.dataset import Indices, Subset
from testbed.learning.splits.split import Split, cut, demand

_SERIES: dict[str, Callable[[npt.NDArray[Any]], npt.NDArray[Any]]] = {
    "linear": lambda number: number,
    "square": np.square,
    "exponential": lambda number: np.exp(number - number.max()),  # of the ratios, exp(1000) is only one
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingSizes(Split):
    """Random shares whose sizes grow with the number of the device: linear, square or exponential."""

    growth: str = param("linear", "f: i, i² or exp(i)", choices=tuple(_SERIES))

    def assign(self, part: Subset, devices: int, rng: np.random.Generator) -> list[Indices]:
        demand(len(part), devices)
        units = _SERIES[self.growth](np.arange(1.0, devices + 1))
        sizes = np.maximum(1, (units / units.sum() * len(part)).astype(np.int64))
        for device in range(devices - 1, -1, -1):  # the last one has the rest; where it cannot give enough, the next
            sizes[device] = max(1, sizes[device] + len(part) - sizes.sum())
        return cut(rng.permutation(len(part)), sizes)
