"""GDC: devices whose gradients point the same way are put into one cluster, with a head.

Zhou, Pang, Wang, Hu, Sun, Ren: Towards Efficient Asynchronous Federated Learning in Heterogeneous Edge Environments
(EAFL). 2024, section V.B (Gradient similarity-based
Dynamic Clustering), Algorithm 1, line 10.

Symbols
    M, N        devices; clusters
    g_i         gradient of device i; an update Δ_i = −η·g_i does as well, since all signs change together
    cos(g, g')  g·g'/(‖g‖·‖g'‖)
    X_n, C_n    devices of cluster n; its head, one of them at random

Rule
    K-Means with N clusters on g_i/‖g_i‖: the squared distance of two of them is 2 − 2·cos(g, g')

Readings
    The paper measures by the cosine and has centroids that are means. Of vectors of length 1 both are K-Means as it is.

Departures
    K-Means sees distances only. They are the same for M points with M coordinates that have the same inner products, so
    that is what it is given: instead of M·d numbers, M². Points are rounded to 10^−6, so that rounding makes no
    difference between devices that have none.
    A gradient without a direction (all zero) stays where it is, at cosine 0 to all others.
    Where there are fewer directions than N, there are fewer clusters: none is empty.
    The labels of K-Means mean nothing: clusters are in the order of their first device, by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from testbed.wire.messages import Vector

Clusters: TypeAlias = tuple[tuple[str, ...], ...]
"""Devices by name, each in one cluster."""

_DECIMALS = 6
_STARTS = 10
"""K-Means ends in a local optimum: the best of so many counts."""
_BLOCK = 65536
"""Numbers of each gradient that are looked at together."""


def cluster(gradients: Mapping[str, Vector], count: int, random: np.random.Generator) -> Clusters:
    """At most ``count`` clusters; the same for the same gradients and generator, in whatever order they are given."""
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
    """One device of each cluster, at random."""
    return tuple(members[int(random.integers(len(members)))] for members in clusters)


def purity(clusters: Sequence[Sequence[str]], truth: Mapping[str, Hashable]) -> float:
    """Share of the devices that belong, in truth, where most of their cluster belong; 1: no cluster is mixed."""
    total = sum(len(members) for members in clusters)
    return sum(max(Counter(truth[device] for device in members).values()) for members in clusters) / total


def _points(gradients: Sequence[Vector]) -> npt.NDArray[np.float64]:
    """As many numbers for each gradient as there are gradients, with the same cosines."""
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
    from sklearn.cluster import KMeans  # takes seconds: only those wait who cluster

    labels: list[int] = KMeans(count, n_init=_STARTS, random_state=seed).fit(points).labels_.tolist()
    return labels
