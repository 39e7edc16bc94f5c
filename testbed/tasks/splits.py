"""Dealing training samples to devices. Pure: labels and a generator in, one array of sample numbers a device out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from testbed.errors import UserError

Indices = npt.NDArray[np.int64]


def iid(samples: int, devices: int, rng: np.random.Generator) -> list[Indices]:
    """Disjoint random shares of equal size."""
    _enough(samples, devices)
    return [np.sort(part) for part in np.array_split(rng.permutation(samples), devices)]


def dirichlet(labels: npt.NDArray[np.int64], devices: int, alpha: float, rng: np.random.Generator) -> list[Indices]:
    """Each label is spread over the devices by a draw from Dirichlet(alpha); small alpha is uneven.

    A device that comes out with nothing is given one sample of the richest device, so that everyone can train.
    """
    _enough(len(labels), devices)
    parts: list[list[Indices]] = [[] for _ in range(devices)]
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        shares = rng.dirichlet(np.full(devices, alpha))
        cuts = np.round(np.cumsum(shares)[:-1] * len(members)).astype(int)
        for device, part in enumerate(np.split(members, cuts)):
            parts[device].append(part)
    shards = [np.concatenate(part) for part in parts]
    for device, shard in enumerate(shards):
        if len(shard) == 0:
            richest = int(np.argmax([len(other) for other in shards]))
            shards[device], shards[richest] = shards[richest][:1], shards[richest][1:]
    return [np.sort(shard) for shard in shards]


def _enough(samples: int, devices: int) -> None:
    if samples < devices:
        raise UserError(f"{samples} training samples cannot be split over {devices} devices; use fewer devices")
