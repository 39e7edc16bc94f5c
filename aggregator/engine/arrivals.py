"""Updates and requests for grants that have been received before they are due: the emulated uplink is still busy."""

from __future__ import annotations

import heapq
import math

from testbed.wire.messages import Ask, Update


class Arrivals:
    """Keeps updates and requests until they are due, and returns them in that order."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Update | Ask, float]] = []
        self._count = 0
        self._keys: set[tuple[type, str, int]] = set()

    def has(self, update: Update | Ask) -> bool:
        """Whether a message of this kind, device and ticket is waiting already."""
        return _key(update) in self._keys

    def add(self, update: Update | Ask, received: float) -> None:
        self._count += 1
        self._keys.add(_key(update))
        heapq.heappush(self._heap, (update.due, self._count, update, received))

    @property
    def next_due(self) -> float:
        """When the next message is due; infinity if there is none."""
        return self._heap[0][0] if self._heap else math.inf

    def pop(self, now: float, wake_at: float) -> tuple[Update | Ask, float, float] | None:
        """Return the next update that is due by ``now``, when it was received, and the moment from which it counts.

        Return None if there is none, or if the wake comes first. Updates that are due at ``wake_at`` precede the wake.
        """
        if self.next_due > min(now, wake_at):
            return None
        due, _, update, received = heapq.heappop(self._heap)
        self._keys.discard(_key(update))
        return update, received, max(due, received)

    # ---- the interface of aggregator.process.recorded_order.RecordedOrder, where no order is prescribed

    consumed = 0
    next_arrival = None

    def has_waiting(self, device: str, ticket: int) -> bool:
        return False

    def allows_wake(self, moment: float) -> bool:
        return True

    def until(self, now: float) -> float:
        return now

    def is_over(self, wakes: int, wake_at: float) -> bool:
        return False

    def take_outdated(self, device: str, ticket: int) -> None:
        return None


def _key(update: Update | Ask) -> tuple[type, str, int]:
    return type(update), update.device, update.ticket
