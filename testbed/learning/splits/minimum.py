"""What becomes of a device that was dealt too little: it is given samples of the richest, or it is an error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from testbed.common.parameters import ParameterError, param
from testbed.learning.data.dataset import Indices
from testbed.learning.splits.split import Split, demand

_NAMED = 3
"""Devices that an error names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLeast(Split):
    """A split that leaves chance to decide how much a device gets."""

    least: int = param(1, "samples that each device has at least", at_least=1)
    short: str = param(
        "fill", "of a device with fewer: fill it up with samples of the richest, or error", choices=("fill", "error")
    )
    remedy: ClassVar[str] = "another seed"
    """What makes shares more even, in words."""

    def demand(self, samples: int, devices: int) -> None:
        """Before anything is drawn: are there so many samples at all?"""
        demand(samples, devices)
        if samples < devices * self.least:
            most = f"{devices} devices can have at most {samples // devices} each of {samples} training samples"
            raise ParameterError("least", f"is {self.least}; {most}: set it lower, or use fewer devices")

    def settle(self, shards: Sequence[Indices]) -> list[Indices]:
        """Shares that are large enough, in ascending order."""
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
            f"is {self.least}; counted from 0, {named}{more}: set it lower, take short = 'fill', fewer devices,"
            f" or {self.remedy}",
        )


def fill(shards: Sequence[Indices], least: int) -> list[Indices]:
    """Move samples from whoever has most, one by one, until everyone has ``least``. There must be enough for that.

    What a device gets is spread evenly over the share of the giver as it was dealt: that goes label by label, and its
    first samples would all be of one label.
    """
    sizes = np.array([len(shard) for shard in shards])
    assert sizes.sum() >= least * len(shards), "whoever deals asks first whether there are enough"
    if sizes.min(initial=least) >= least:
        return list(shards)
    pools = [shard.tolist() for shard in shards]
    for device in np.flatnonzero(sizes < least):
        missing = least - sizes[device]
        for place in range(missing):
            richest = int(np.argmax(sizes))  # has more than ``least``, because someone has less
            giver = pools[richest]
            pools[device].append(giver.pop(place * len(giver) // missing))
            sizes[richest] -= 1
            sizes[device] += 1
    return [np.array(pool, np.int64) for pool in pools]
