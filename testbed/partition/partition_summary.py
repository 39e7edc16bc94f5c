"""A partition as plain values."""

from __future__ import annotations

from typing import Any

import numpy as np

from testbed.learning.data.dataset import Indices, Subset
from testbed.partition import partition as partitions
from testbed.partition.heterogeneity import distance, distance_at_random
from testbed.partition.partition import Partition


def as_table(partition: Partition) -> dict[str, Any]:
    sizes = np.array([len(shard) for shard in partition.shards])
    devices: list[dict[str, Any]] = [
        {"device": name, "samples": int(size)} for name, size in zip(partition.names, sizes, strict=True)
    ]
    for row, owner in zip(devices, partitions.owners(partition) or (), strict=False):
        row["owner"] = owner
    more = _classes(partition, devices) if partition.has_classes else _values(partition, devices)
    used = len(np.unique(np.concatenate(partition.shards)))
    return {
        "title": partition.title,
        "training_samples": len(partition.data.train),
        "test_samples": len(partition.tested),
        "smallest": int(sizes.min()),
        "median": float(np.median(sizes)),
        "largest": int(sizes.max()),
        "unassigned": len(partition.data.train) - used,
        "assigned_more_than_once": int(sizes.sum()) - used,
        "devices": devices,
        **more,
    }


def _classes(partition: Partition, devices: list[dict[str, Any]]) -> dict[str, Any]:
    """Add to the rows of the devices, and return the values of all of them."""
    names = partitions.labels(partition)
    counts = partitions.counts(partition.data.train, partition.shards, len(names))
    for row, column in zip(devices, counts.T, strict=True):
        row["classes"] = int(np.count_nonzero(column))
    return {
        "labels": names,
        "counts": counts.tolist(),
        "total": counts.sum(axis=1).tolist(),
        "test": partitions.counts(partition.data.test, [partition.tested], len(names))[:, 0].tolist(),
        "distance": distance(counts),
        "distance_at_random": distance_at_random(counts),
    }


def _values(partition: Partition, devices: list[dict[str, Any]]) -> dict[str, Any]:
    train = partition.data.train
    for row, shard in zip(devices, partition.shards, strict=True):
        row |= _moments(train, shard)
    return {
        "total": _moments(train, np.concatenate(partition.shards)),
        "test": _moments(partition.data.test, partition.tested),
    }


def _moments(part: Subset, samples: Indices) -> dict[str, float | None]:
    """Return mean and standard deviation; None without samples, since JSON has no NaN."""
    values = np.asarray(part.targets[samples], np.float64)
    return {"mean": float(values.mean()), "std": float(values.std())} if values.size else {"mean": None, "std": None}
