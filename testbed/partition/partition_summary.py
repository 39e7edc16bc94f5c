"""The summary of a partition: the samples of each device, and how uneven they are. ``data --format json`` prints it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import TypeAlias

import msgspec
import numpy as np

from testbed.learning.data.dataset import Indices, Subset
from testbed.partition import partition as partitions
from testbed.partition.heterogeneity import distance, distance_at_random
from testbed.partition.partition import Partition


class DeviceSamples(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many samples a device has, and whose."""

    device: str
    samples: int
    owner: str | None = None
    """The owner of its samples; None, and absent from the JSON, if samples have no owner or a device has several."""


class DeviceLabels(DeviceSamples, frozen=True, kw_only=True):
    """The samples of one device, where targets are labels."""

    classes: int
    """Number of labels of which it has samples."""


class DeviceValues(DeviceSamples, frozen=True, kw_only=True):
    """The samples of one device, where targets are values."""

    mean: float | None
    std: float | None
    """None without samples."""


class Moments(msgspec.Struct, frozen=True, kw_only=True):
    """Mean and standard deviation of values; None without samples, since JSON has no NaN."""

    mean: float | None
    std: float | None


class PartitionSizes(msgspec.Struct, frozen=True, kw_only=True):
    """How many samples there are, and how they are spread over devices."""

    title: str
    training_samples: int
    test_samples: int
    smallest: int
    median: float
    largest: int
    """Samples of a device."""
    unassigned: int
    """Training samples that no device has."""
    assigned_more_than_once: int


class LabelSummary(PartitionSizes, frozen=True, kw_only=True):
    """A partition where targets are labels."""

    devices: list[DeviceLabels]
    labels: list[str]
    """Names of the labels, in the order of all counts."""
    counts: list[list[int]]
    """Samples, labels × devices."""
    total: list[int]
    test: list[int]
    """Samples of each label: of all devices, and to test with."""
    distance: float
    distance_at_random: float
    """See ``testbed.partition.heterogeneity``."""


class ValueSummary(PartitionSizes, frozen=True, kw_only=True):
    """A partition where targets are values."""

    devices: list[DeviceValues]
    total: Moments
    test: Moments
    """Values of all devices, and to test with."""


PartitionSummary: TypeAlias = LabelSummary | ValueSummary


def summary(partition: Partition) -> PartitionSummary:
    """Return the summary of a partition, by the kind of its targets."""
    return _of_labels(partition) if partition.has_classes else _of_values(partition)


def _sizes(partition: Partition) -> PartitionSizes:
    sizes = np.array([len(shard) for shard in partition.shards])
    used = len(np.unique(np.concatenate(partition.shards)))
    return PartitionSizes(
        title=partition.title,
        training_samples=len(partition.data.train),
        test_samples=len(partition.tested),
        smallest=int(sizes.min()),
        median=float(np.median(sizes)),
        largest=int(sizes.max()),
        unassigned=len(partition.data.train) - used,
        assigned_more_than_once=int(sizes.sum()) - used,
    )


def _of_labels(partition: Partition) -> LabelSummary:
    names = partitions.labels(partition)
    counts = partitions.counts(partition.data.train, partition.shards, len(names))
    classes = np.count_nonzero(counts, axis=0).tolist()
    devices = [
        DeviceLabels(device=name, samples=len(shard), owner=owner, classes=present)
        for (name, shard, owner), present in zip(_devices(partition), classes, strict=True)
    ]
    return LabelSummary(
        **msgspec.structs.asdict(_sizes(partition)),
        devices=devices,
        labels=names,
        counts=counts.tolist(),
        total=counts.sum(axis=1).tolist(),
        test=partitions.counts(partition.data.test, [partition.tested], len(names))[:, 0].tolist(),
        distance=distance(counts),
        distance_at_random=distance_at_random(counts),
    )


def _of_values(partition: Partition) -> ValueSummary:
    train = partition.data.train
    devices = []
    for name, shard, owner in _devices(partition):
        found = _moments(train, shard)
        devices.append(DeviceValues(device=name, samples=len(shard), owner=owner, mean=found.mean, std=found.std))
    return ValueSummary(
        **msgspec.structs.asdict(_sizes(partition)),
        devices=devices,
        total=_moments(train, np.concatenate(partition.shards)),
        test=_moments(partition.data.test, partition.tested),
    )


def _devices(partition: Partition) -> Iterator[tuple[str, Indices, str | None]]:
    """Yield name, samples and owner of each device."""
    owners: Sequence[str | None] | None = partitions.owners(partition)
    return zip(partition.names, partition.shards, owners or repeat(None, len(partition.names)), strict=True)


def _moments(part: Subset, samples: Indices) -> Moments:
    values = np.asarray(part.targets[samples], np.float64)
    if not values.size:
        return Moments(mean=None, std=None)
    return Moments(mean=float(values.mean()), std=float(values.std()))
