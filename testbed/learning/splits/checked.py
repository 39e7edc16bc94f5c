"""Dealing by a split that may be a user's own: what it gives is looked at before a device trains on it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from testbed.learning.data.dataset import Indices, Subset
from testbed.learning.splits.split import Split, unfit


def assign_checked(split: Split, part: Subset, devices: int, rng: np.random.Generator) -> list[Indices]:
    """Sample numbers in ascending order, one array for each device, none of them empty. Raises ParameterError."""
    return shares(split.assign(part, devices, rng), len(part), devices, type(split).__name__)


def shares(given: Iterable[Any], samples: int, devices: int, who: str) -> list[Indices]:
    """What the ``deal`` of ``who`` gave."""
    shards = list(given)
    if len(shards) != devices:
        raise unfit(f"{who}.deal gave {len(shards)} shares for {devices} devices; it must give one for each")
    return [share(shard, samples, f"{who}.deal gave device {device}") for device, shard in enumerate(shards)]


def share(given: Any, samples: int, who: str) -> Indices:
    shard = np.asarray(given)
    if shard.ndim != 1 or not len(shard):
        raise unfit(f"{who} an array of shape {shard.shape}; it must be a list of at least one sample number")
    if not np.issubdtype(shard.dtype, np.integer):
        raise unfit(f"{who} numbers of type {shard.dtype}; sample numbers are whole")
    if shard.min() < 0 or shard.max() >= samples:
        wrong = int(shard.min() if shard.min() < 0 else shard.max())
        raise unfit(f"{who} the sample number {wrong}; they go from 0 to {samples - 1}")
    ordered = np.unique(shard)
    if len(ordered) < len(shard):
        raise unfit(f"{who} {len(shard) - len(ordered)} of its samples twice; each may be there once")
    return ordered.astype(np.int64)
