"""Small data sets for splits, which only use labels and owners."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from testbed.learning.data.dataset import Indices, Subset


def part(targets: npt.ArrayLike, owners: npt.ArrayLike | None = None) -> Subset:
    array = np.asarray(targets)
    made_by = None if owners is None else np.asarray(owners)
    return Subset(inputs=np.zeros((len(array), 1), np.float32), targets=array, owners=made_by)


def classes(samples: int, labels: int = 10) -> Subset:
    """Return samples with equally frequent labels in random order."""
    return part(np.random.default_rng(7).permutation(np.arange(samples) % labels).astype(np.uint8))


def values(samples: int) -> Subset:
    return part(np.random.default_rng(7).normal(size=samples).astype(np.float32))


def counts(shards: list[Indices], of: Subset) -> npt.NDArray[np.int64]:
    """Return the number of samples: devices × labels."""
    return np.array([np.bincount(of.labels[shard], minlength=of.labels.max() + 1) for shard in shards])


def sizes(shards: list[Indices]) -> list[int]:
    return [len(shard) for shard in shards]


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)
