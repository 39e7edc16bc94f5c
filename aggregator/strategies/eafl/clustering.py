"""GDC: devices whose gradients have similar directions form a cluster, with a head.

Zhou, Pang, Wang, Hu, Sun, Ren: Towards Efficient Asynchronous Federated Learning in Heterogeneous Edge Environments
(EAFL). 2024, section V.B (Gradient similarity-based Dynamic Clustering), Algorithm 1, line 10.

Symbols
    M, N        devices; clusters
    g_i         gradient of device i; an update Δ_i = −η·g_i gives the same cosines
    cos(g, g')  g·g'/(‖g‖·‖g'‖)
    X_n, C_n    devices of cluster n; its head, one of them at random

Rule
    K-Means with N clusters on g_i/‖g_i‖: the squared distance of two of them is 2 − 2·cos(g, g')

Readings
    The paper uses the cosine as distance and means as centroids. For vectors of length 1 this is plain K-Means.

Departures
    K-Means depends on distances only. They are the same for M points with M coordinates and the same inner products, so
    K-Means gets these: M² numbers instead of M·d. Points are rounded to 10^−6, so that equal devices stay equal.
    A gradient without a direction (all zero) stays zero, at cosine 0 to all others.
    With fewer directions than N there are fewer clusters: none is empty.
    The labels of K-Means have no meaning: clusters are in the order of their first device, by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from testbed.wire.messages import Vector

Clusters: TypeAlias = tuple[tuple[str, ...], ...]
"""The names of the devices in each cluster."""

_DECIMALS = 6
_STARTS = 10
"""Random starts: K-Means ends in a local optimum, and the best of them is used."""
_BLOCK = 65536
"""Coordinates of the gradients that are multiplied at a time."""


def cluster(gradients: Mapping[str, Vector], count: int, random: np.random.Generator) -> Clusters:
    """Return at most ``count`` clusters. The order of ``gradients`` does not matter."""
    names = sorted(gradients)
    if not names:
        return ()
    points = _points([gradients[name] for name in names])
    labels = _k_means(points, min(count, len(np.unique(points, axis=0))), int(random.integers(2**31)))
    found: dict[int, list[str]] = {}
    for name, label in zip(names, labels, strict=True):
        found.setdefault(label, []).append(name)
    return tuple(tuple(members) for members in found.values())


def heads(clusters: Clusters, random: np.random.Generator) -> tuple[str, ...]:
    """Return one random device of each cluster."""
    return tuple(members[int(random.integers(len(members)))] for members in clusters)


def purity(clusters: Sequence[Sequence[str]], truth: Mapping[str, Hashable]) -> float:
    """Return the share of devices whose true group is the most frequent one of their cluster; 1: none is mixed."""
    total = sum(len(members) for members in clusters)
    return sum(max(Counter(truth[device] for device in members).values()) for members in clusters) / total


def _points(gradients: Sequence[Vector]) -> npt.NDArray[np.float64]:
    """Return one point for each of the M gradients, with M coordinates and the same cosines."""
    size = len(gradients)
    products = np.zeros((size, size))
    for start in range(0, gradients[0].size, _BLOCK):
        block = np.stack([gradient[start : start + _BLOCK] for gradient in gradients]).astype(np.float64)
        products += block @ block.T
    lengths = np.sqrt(np.diagonal(products))
    lengths[lengths == 0] = 1.0
    values, vectors = np.linalg.eigh(products / np.outer(lengths, lengths))  # = V·diag(values)·Vᵀ
    points: npt.NDArray[np.float64] = np.round(vectors * np.sqrt(np.maximum(values, 0.0)), _DECIMALS)
    return points + 0.0  # −0 is 0


def _k_means(points: npt.NDArray[np.float64], count: int, seed: int) -> list[int]:
    if count <= 1:
        return [0] * len(points)
    from sklearn.cluster import KMeans  # its import takes seconds

    labels: list[int] = KMeans(count, n_init=_STARTS, random_state=seed).fit(points).labels_.tolist()
    return labels
