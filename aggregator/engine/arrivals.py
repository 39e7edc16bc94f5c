"""Updates, and requests for grants, that are here before they are due: the emulated uplink has not delivered them."""

from __future__ import annotations

import heapq
import math

from testbed.wire.messages import Ask, Update


class Arrivals:
    """Keeps updates until they are due, and gives them out in that order."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Update | Ask, float]] = []
        self._count = 0
        self._keys: set[tuple[type, str, int]] = set()

    def has(self, update: Update | Ask) -> bool:
        """Whether the same is here already: one for each device and ticket is enough."""
        return _key(update) in self._keys

    def add(self, update: Update | Ask, received: float) -> None:
        self._count += 1
        self._keys.add(_key(update))
        heapq.heappush(self._heap, (update.due, self._count, update, received))

    @property
    def next_due(self) -> float:
        return self._heap[0][0] if self._heap else math.inf

    def pop(self, now: float, wake_at: float) -> tuple[Update | Ask, float, float] | None:
        """The next update that is due by ``now``, when it was received, and the moment from which it counts.

        None if the wake comes first: that is after the updates of its moment.
        """
        if self.next_due > min(now, wake_at):
            return None
        due, _, update, received = heapq.heappop(self._heap)
        self._keys.discard(_key(update))
        return update, received, max(due, received)

    # nobody waits for his turn here: see aggregator.process.recorded_order

    consumed = 0

    def holds(self, device: str, ticket: int) -> bool:
        return False

    def allows_wake(self, moment: float) -> bool:
        return True

    def until(self, now: float) -> float:
        return now

    def is_over(self, wakes: int, wake_at: float) -> bool:
        return False

    def settled(self, device: str, ticket: int) -> None:
        return None

    @property
    def turn(self) -> None:
        return None


def _key(update: Update | Ask) -> tuple[type, str, int]:
    return type(update), update.device, update.ticket
