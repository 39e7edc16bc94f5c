"""Updates that are here before they are due: the emulated uplink has not delivered them yet."""

from __future__ import annotations

import heapq
import math

from testbed.messages import Update


class Arrivals:
    """Keeps updates until they are due, and gives them out in that order."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Update, float]] = []
        self._count = 0

    def add(self, update: Update, received: float) -> None:
        self._count += 1
        heapq.heappush(self._heap, (update.due, self._count, update, received))

    @property
    def next_due(self) -> float:
        return self._heap[0][0] if self._heap else math.inf

    def pop(self, now: float) -> tuple[Update, float] | None:
        """The next update that is due by ``now``, and when it was received."""
        if self.next_due > now:
            return None
        _, _, update, received = heapq.heappop(self._heap)
        return update, received
