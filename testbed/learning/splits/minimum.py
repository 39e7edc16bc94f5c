"""A minimum number of samples for each device: missing ones are moved from the largest share, or it is an error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from testbed.common.parameters import ParameterError, param
from testbed.learning.data.dataset import Indices
from testbed.learning.splits.split import Split, demand

_NAMED = 3
"""Number of devices that an error names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLeast(Split):
    """A split in which the number of samples of a device is random."""

    least: int = param(1, "minimum number of samples of a device", at_least=1)
    short: str = param(
        "fill",
        "if a device has fewer. fill: move samples from the largest share; error: refuse",
        choices=("fill", "error"),
    )
    remedy: ClassVar[str] = "another seed"
    """How to make shares more even, for an error."""

    def demand(self, samples: int, devices: int) -> None:
        """Raise ParameterError if there are not enough samples for the minimum."""
        demand(samples, devices)
        if samples < devices * self.least:
            most = f"{devices} devices can have at most {samples // devices} each of {samples} training samples"
            raise ParameterError("least", f"is {self.least}; {most}: set it lower, or use fewer devices")

    def settle(self, shards: Sequence[Indices]) -> list[Indices]:
        """Return shares that have the minimum size, in ascending order. Raises ParameterError."""
        if self.short == "error":
            self._refuse(shards)
        return [np.sort(shard) for shard in fill(shards, self.least)]

    def _refuse(self, shards: Sequence[Indices]) -> None:
        short = [(device, len(shard)) for device, shard in enumerate(shards) if len(shard) < self.least]
        if not short:
            return
        named = ", ".join(f"device {device} has {samples}" for device, samples in short[:_NAMED])
        more = f", and {len(short) - _NAMED} more have too few" if len(short) > _NAMED else ""
        raise ParameterError(
            "least",
            f"is {self.least}; counted from 0, {named}{more}: set it lower, or use short = 'fill', fewer devices,"
            f" or {self.remedy}",
        )


def fill(shards: Sequence[Indices], least: int) -> list[Indices]:
    """Return shares of at least ``least`` samples. Samples are moved one by one from the largest share.

    They are picked evenly from that share: it is ordered by label, and its first samples would all have one label.
    """
    sizes = np.array([len(shard) for shard in shards])
    assert sizes.sum() >= least * len(shards), "the caller has checked that there are enough"
    if sizes.min(initial=least) >= least:
        return list(shards)
    pools = [shard.tolist() for shard in shards]
    for device in np.flatnonzero(sizes < least):
        missing = least - sizes[device]
        for place in range(missing):
            largest = int(np.argmax(sizes))  # has more than ``least``, because another share has fewer
            giver = pools[largest]
            pools[device].append(giver.pop(place * len(giver) // missing))
            sizes[largest] -= 1
            sizes[device] += 1
    return [np.array(pool, np.int64) for pool in pools]
