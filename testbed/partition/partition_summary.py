"""Everything that is told about data that was dealt, as plain values."""

from __future__ import annotations

from typing import Any

import numpy as np

from testbed.learning.data.dataset import Indices, Part
from testbed.partition import partition as dealing
from testbed.partition.heterogeneity import distance, distance_at_random
from testbed.partition.partition import Dealt


def as_table(dealt: Dealt) -> dict[str, Any]:
    sizes = np.array([len(shard) for shard in dealt.shards])
    devices: list[dict[str, Any]] = [
        {"device": name, "samples": int(size)} for name, size in zip(dealt.names, sizes, strict=True)
    ]
    for row, owner in zip(devices, dealing.owners(dealt) or (), strict=False):
        row["owner"] = owner
    more = _classes(dealt, devices) if dealt.has_classes else _values(dealt, devices)
    used = len(np.unique(np.concatenate(dealt.shards)))
    return {
        "title": dealt.title, "training_samples": len(dealt.data.train), "test_samples": len(dealt.tested),
        "smallest": int(sizes.min()), "median": float(np.median(sizes)), "largest": int(sizes.max()),
        "nobody_has": len(dealt.data.train) - used, "dealt_more_than_once": int(sizes.sum()) - used,
        "devices": devices, **more,
    }  # fmt: skip


def _classes(dealt: Dealt, devices: list[dict[str, Any]]) -> dict[str, Any]:
    """Adds to the rows of the devices, and gives what is told of all."""
    names = dealing.labels(dealt)
    counts = dealing.counts(dealt.data.train, dealt.shards, len(names))
    for row, had in zip(devices, counts.T, strict=True):
        row["classes"] = int(np.count_nonzero(had))
    return {
        "labels": names,
        "counts": counts.tolist(),
        "total": counts.sum(axis=1).tolist(),
        "test": dealing.counts(dealt.data.test, [dealt.tested], len(names))[:, 0].tolist(),
        "distance": distance(counts),
        "distance_at_random": distance_at_random(counts),
    }


def _values(dealt: Dealt, devices: list[dict[str, Any]]) -> dict[str, Any]:
    train = dealt.data.train
    for row, shard in zip(devices, dealt.shards, strict=True):
        row |= _moments(train, shard)
    return {
        "total": _moments(train, np.concatenate(dealt.shards)),
        "test": _moments(dealt.data.test, dealt.tested),
    }


def _moments(part: Part, samples: Indices) -> dict[str, float | None]:
    """Of nothing there are none: JSON has no NaN."""
    had = np.asarray(part.targets[samples], np.float64)
    return {"mean": float(had.mean()), "std": float(had.std())} if had.size else {"mean": None, "std": None}
