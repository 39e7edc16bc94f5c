"""The agenda of the fleet: which device acts next. A heap, so that a larger fleet costs only the logarithm more."""

from __future__ import annotations

import heapq
import math


class Agenda:
    """When each device acts next. At one moment, devices act in fleet order.

    A device whose next moment changes leaves its old entry in the heap, which is skipped later.
    """

    def __init__(self, devices: int) -> None:
        self._planned = [math.inf] * devices
        self._heap: list[tuple[float, int]] = []

    @property
    def next(self) -> float:
        """The moment at which a device acts next; infinity if none does."""
        heap, planned = self._heap, self._planned
        while heap and planned[heap[0][1]] != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else math.inf

    def plan(self, device: int, moment: float) -> None:
        """Let a device act at ``moment``, and no more at the moment that was planned before."""
        if moment == self._planned[device]:
            return
        self._planned[device] = moment
        if moment < math.inf:
            heapq.heappush(self._heap, (moment, device))

    def take(self, now: float) -> int | None:
        """Return the next device that acts by ``now``, which is to be planned anew; None if there is none."""
        if self.next > now:
            return None
        _, device = heapq.heappop(self._heap)
        self._planned[device] = math.inf
        return device
