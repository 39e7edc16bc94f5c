"""Data that was dealt to devices, and how many samples of which label each of them has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.learning.data.dataset import DataSet, Indices, Subset

_BINS = 20
"""Stretches into which values are put where labels would be counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A data set, and the share of each device."""

    title: str
    data: DataSet
    shards: Sequence[Indices]
    names: Sequence[str]
    """Of the devices, in the order of the shards."""
    test: Indices | None = None
    """What is tested with; unset: the whole test part."""

    @property
    def has_classes(self) -> bool:
        return self.data.train.has_classes

    @property
    def tested(self) -> Indices:
        return np.arange(len(self.data.test)) if self.test is None else self.test


def labels(partition: Partition) -> list[str]:
    """Names of the classes, or their numbers if they have none. Characters that cannot be seen have signs."""
    if partition.data.classes:
        return [{" ": "␣", "\n": "⏎"}.get(name, name) for name in partition.data.classes]
    found = [part.labels.max(initial=-1) for part in (partition.data.train, partition.data.test)]
    return [str(label) for label in range(int(max(found)) + 1)]


def counts(part: Subset, shards: Sequence[Indices], labels: int) -> npt.NDArray[np.int64]:
    """Labels × shards."""
    every = part.labels
    columns = [np.bincount(every[shard].ravel(), minlength=labels) for shard in shards]
    return np.array(columns, np.int64).reshape(len(shards), -1).T


def binned(partition: Partition) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Of values: stretches of equal length from the least to the greatest, by their beginnings; stretches × devices."""
    targets = partition.data.train.targets
    edges = np.histogram_bin_edges(targets, _BINS)
    columns = [np.histogram(targets[shard], edges)[0] for shard in partition.shards]
    return [f"{edge:.3g}" for edge in edges[:-1]], np.array(columns, np.int64).T


def owners(partition: Partition) -> list[str] | None:
    """Whose samples each device has, if no device has those of two owners."""
    made_by = partition.data.train.owners
    if made_by is None:
        return None
    found = [np.unique(made_by[shard]) for shard in partition.shards]
    if any(len(each) != 1 for each in found):
        return None
    numbers = [int(each[0]) for each in found]
    return [partition.data.owners[number] for number in numbers] if partition.data.owners else [str(n) for n in numbers]
