"""The same distribution on all devices: equal random shares, or identical samples.

``identical`` is the IID setting of Hao et al. 2025 (AUDG), where each of 4 devices has the same 25,000 samples of
MNIST. Its "small non-IID" setting, 6,250 different samples on each device, is ``samples = 6250``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from testbed.common.parameters import ParameterError, param
from testbed.learning.data.dataset import Indices, Subset
from testbed.learning.splits.split import Split, cut, demand, equal


@dataclass(frozen=True, slots=True, kw_only=True)
class IID(Split):
    """Disjoint random shares of equal size, or the same random samples on all devices."""

    identical: bool = param(False, "true: all devices have the same samples; false: each sample is on one device only")
    samples: int | None = param(None, "samples of a device; unset: as many as possible", at_least=1)

    def assign(self, part: Subset, devices: int, rng: np.random.Generator) -> list[Indices]:
        return self._same(len(part), devices, rng) if self.identical else self._disjoint(len(part), devices, rng)

    def _same(self, samples: int, devices: int, rng: np.random.Generator) -> list[Indices]:
        demand(samples, 1)
        each = samples if self.samples is None else self.samples
        if each > samples:
            raise ParameterError("samples", f"is {each}; there are {samples} training samples: at most {samples}")
        shard = np.sort(rng.permutation(samples)[:each])
        return [shard.copy() for _ in range(devices)]

    def _disjoint(self, samples: int, devices: int, rng: np.random.Generator) -> list[Indices]:
        demand(samples, devices)
        if self.samples is not None and self.samples * devices > samples:
            most = f"{devices} devices can have at most {samples // devices} each of {samples} training samples"
            raise ParameterError("samples", f"is {self.samples}; {most}: set it lower, or use fewer devices")
        sizes = equal(samples, devices) if self.samples is None else np.full(devices, self.samples)
        return cut(rng.permutation(samples), sizes)
