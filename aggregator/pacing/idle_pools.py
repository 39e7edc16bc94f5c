"""Pools of idle devices from which the next device is drawn: uniformly, by samples, or in turn.

What is drawn depends on the names in a pool and on the random generator, and not on the order in which devices entered
it: so a run with the same seed draws the same devices on any host. To add, remove or draw a device takes O(log n)
steps; only a device that was never seen before makes a ``WeightedPool`` sort its names again.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Protocol

import numpy as np


class IdlePool(Protocol):
    """Devices that may be drawn."""

    def __len__(self) -> int: ...

    def add(self, device: str, samples: int) -> None:
        """Add a device with its number of samples, unless it is in the pool."""

    def discard(self, device: str) -> None:
        """Remove a device, if it is in the pool."""

    def draw(self, count: int, random: np.random.Generator) -> list[str]:
        """Remove ``count`` devices, or all if there are fewer, and return them. All: ``random`` is not used."""


class WeightedPool:
    """Draws each device with a probability proportional to its samples, or all with the same.

    All names that were ever seen are sorted, and a Fenwick tree has the sums of the weights of ranges of them. A device
    that is not in the pool has weight 0.
    """

    def __init__(self, *, by_samples: bool) -> None:
        self._by_samples = by_samples
        self._weights: dict[str, int] = {}
        """Device → its weight, for the devices in the pool."""
        self._total = 0
        self._names: list[str] = []
        self._ranks: dict[str, int] = {}
        """Device → its place in ``_names``."""
        self._tree: list[int] = []
        """At i: the sum of the weights of the names from i − (i & −i) to i − 1."""
        self._is_sorted = True

    def __len__(self) -> int:
        return len(self._weights)

    def add(self, device: str, samples: int) -> None:
        if device in self._weights:
            return
        self._is_sorted = self._is_sorted and device in self._ranks
        self._weights[device] = samples if self._by_samples else 1
        self._add(device, self._weights[device])

    def discard(self, device: str) -> None:
        if device in self._weights:
            self._add(device, -self._weights.pop(device))

    def draw(self, count: int, random: np.random.Generator) -> list[str]:
        if count >= len(self._weights):
            return self._draw_all()
        drawn: list[str] = []
        for _ in range(count):
            drawn.append(self._at(int(random.integers(self._total))))
            self.discard(drawn[-1])
        return drawn

    def _draw_all(self) -> list[str]:
        drawn = sorted(self._weights)
        if 2 * len(drawn) > len(self._names):  # to make the tree again takes less time than to empty it
            self._weights.clear()
            self._total, self._is_sorted = 0, False
        else:
            for device in drawn:
                self.discard(device)
        return drawn

    def _at(self, point: int) -> str:
        """Return the device at a point of all weights in a row, in the order of the names."""
        if not self._is_sorted:
            self._sort()
        rank, step = 0, 1 << len(self._names).bit_length()
        while step := step >> 1:
            if rank + step <= len(self._names) and self._tree[rank + step] <= point:
                rank += step
                point -= self._tree[rank]
        return self._names[rank]

    def _add(self, device: str, weight: int) -> None:
        """Add a weight to the sums that count this device."""
        self._total += weight
        if self._is_sorted:
            self._add_to_tree(self._ranks[device] + 1, weight)

    def _add_to_tree(self, place: int, weight: int) -> None:
        while place < len(self._tree):
            self._tree[place] += weight
            place += place & -place

    def _sort(self) -> None:
        self._names = sorted(self._ranks.keys() | self._weights.keys())
        self._ranks = {name: rank for rank, name in enumerate(self._names)}
        self._tree = [0, *(self._weights.get(name, 0) for name in self._names)]
        for place in range(1, len(self._tree)):  # each sum is also a part of the next larger one
            parent = place + (place & -place)
            if parent < len(self._tree):
                self._tree[parent] += self._tree[place]
        self._is_sorted = True


class PermutedPool(WeightedPool):
    """Draws the first devices of a random permutation of all.

    The distribution is that of a uniform draw, but a permutation takes O(n) steps. Strategies with a ``fraction`` draw
    in this way, even if no place is free, so that a seed means the same as in earlier versions.
    """

    def __init__(self) -> None:
        super().__init__(by_samples=False)

    def draw(self, count: int, random: np.random.Generator) -> list[str]:
        if count >= len(self):
            return self._draw_all()
        drawn = [self._at(place) for place in random.permutation(len(self))[:count].tolist()]
        for device in drawn:
            self.discard(device)
        return drawn


class RoundRobinPool:
    """Draws the device whose last turn is longest ago; those that had none come first, in the order of their names.

    A device keeps its place in this order when it leaves and returns. While a device is in the pool, no other device
    gets two turns.
    """

    def __init__(self) -> None:
        self._members: set[str] = set()
        self._last_turn: dict[str, int] = {}
        self._turns = 0
        self._queue: list[tuple[int, str]] = []
        """A heap of last turns and devices, with the members and devices that were discarded since."""
        self._queued: set[str] = set()

    def __len__(self) -> int:
        return len(self._members)

    def add(self, device: str, samples: int) -> None:
        self._members.add(device)
        if device not in self._queued:
            self._queued.add(device)
            heapq.heappush(self._queue, (self._last_turn.get(device, 0), device))

    def discard(self, device: str) -> None:
        self._members.discard(device)

    def draw(self, count: int, random: np.random.Generator) -> list[str]:
        drawn: list[str] = []
        while self._members and len(drawn) < count:
            _, device = heapq.heappop(self._queue)
            self._queued.remove(device)
            if device in self._members:
                self._members.remove(device)
                self._turns += 1
                self._last_turn[device] = self._turns
                drawn.append(device)
        return drawn


def sample(devices: Iterable[str], size: int, random: np.random.Generator) -> list[str]:
    """Return ``size`` devices, drawn without replacement. If all are drawn, ``random`` is not used."""
    pool = PermutedPool()
    for device in devices:
        pool.add(device, 1)
    return pool.draw(size, random)
