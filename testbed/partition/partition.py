"""The partition of a data set: the samples of each device, and counts of their labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.learning.data.dataset import DataSet, Indices, Subset

_BINS = 20
"""Bins of a histogram, for targets that are values and not labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A data set, and the samples of each device."""

    title: str
    data: DataSet
    shards: Sequence[Indices]
    names: Sequence[str]
    """Names of the devices, in the order of the shards."""
    test: Indices | None = None
    """The test samples that are used; None: all of them."""

    @property
    def has_classes(self) -> bool:
        return self.data.train.has_classes

    @property
    def tested(self) -> Indices:
        return np.arange(len(self.data.test)) if self.test is None else self.test


def labels(partition: Partition) -> list[str]:
    """Return the names of the classes, or their numbers if they have none. White space is shown as a symbol."""
    if partition.data.classes:
        return [{" ": "␣", "\n": "⏎"}.get(name, name) for name in partition.data.classes]
    found = [part.labels.max(initial=-1) for part in (partition.data.train, partition.data.test)]
    return [str(label) for label in range(int(max(found)) + 1)]


def counts(part: Subset, shards: Sequence[Indices], labels: int) -> npt.NDArray[np.int64]:
    """Return the number of samples: labels × shards."""
    every = part.labels
    columns = [np.bincount(every[shard].ravel(), minlength=labels) for shard in shards]
    return np.array(columns, np.int64).reshape(len(shards), -1).T


def binned(partition: Partition) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Return a histogram of values: the lower edges of its bins, and the number of samples, bins × devices."""
    targets = partition.data.train.targets
    edges = np.histogram_bin_edges(targets, _BINS)
    columns = [np.histogram(targets[shard], edges)[0] for shard in partition.shards]
    return [f"{edge:.3g}" for edge in edges[:-1]], np.array(columns, np.int64).T


def owners(partition: Partition) -> list[str] | None:
    """Return the owner of each device's samples, or None if a device has samples of several owners."""
    made_by = partition.data.train.owners
    if made_by is None:
        return None
    found = [np.unique(made_by[shard]) for shard in partition.shards]
    if any(len(each) != 1 for each in found):
        return None
    numbers = [int(each[0]) for each in found]
    return [partition.data.owners[number] for number in numbers] if partition.data.owners else [str(n) for n in numbers]
