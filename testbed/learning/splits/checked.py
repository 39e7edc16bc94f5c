"""Checks of the result of a split, which may be a user's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from testbed.learning.data.dataset import Indices, Subset
from testbed.learning.splits.split import Split, unfit


def assign_checked(split: Split, part: Subset, devices: int, rng: np.random.Generator) -> list[Indices]:
    """Return the sample numbers of each device in ascending order, none of them empty. Raises ParameterError."""
    return shares(split.assign(part, devices, rng), len(part), devices, type(split).__name__)


def shares(given: Iterable[Any], samples: int, devices: int, who: str) -> list[Indices]:
    """Return checked sample numbers of each device, which ``who.assign`` returned. Raises ParameterError."""
    shards = list(given)
    if len(shards) != devices:
        raise unfit(f"{who}.assign returned {len(shards)} lists for {devices} devices; it must return one for each")
    return [share(shard, samples, f"{who}.assign returned for device {device}") for device, shard in enumerate(shards)]


def share(given: Any, samples: int, who: str) -> Indices:
    """Return checked sample numbers in ascending order. Raises ParameterError, which begins with ``who``."""
    shard = np.asarray(given)
    if shard.ndim != 1 or not len(shard):
        raise unfit(f"{who} an array of shape {shard.shape}; it must be a list of at least one sample number")
    if not np.issubdtype(shard.dtype, np.integer):
        raise unfit(f"{who} numbers of type {shard.dtype}; sample numbers are whole numbers")
    if shard.min() < 0 or shard.max() >= samples:
        wrong = int(shard.min() if shard.min() < 0 else shard.max())
        raise unfit(f"{who} the sample number {wrong}; it must be in 0 to {samples - 1}")
    ordered = np.unique(shard)
    if len(ordered) < len(shard):
        raise unfit(f"{who} a list with {len(shard) - len(ordered)} repeated samples; each may occur once")
    return ordered.astype(np.int64)
