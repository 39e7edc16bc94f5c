"""Messages that wait until they are due: devices send updates and grant requests a little early (ADR 7)."""

from __future__ import annotations

import heapq
import math
from typing import TypeAlias

from testbed.wire.messages import Ask, Update

_Key: TypeAlias = tuple[type, str, int]


class Arrivals:
    """Keeps updates and grant requests until they are due, and returns them in the order in which they are due."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Update | Ask, float, _Key]] = []
        self._count = 0
        self._keys: set[_Key] = set()

    def has(self, message: Update | Ask) -> bool:
        """Whether a message of this kind, device and ticket is waiting already."""
        return _key(message) in self._keys

    def add(self, message: Update | Ask, received: float) -> None:
        self._count += 1
        key = _key(message)
        self._keys.add(key)
        heapq.heappush(self._heap, (message.due, self._count, message, received, key))

    @property
    def next_due(self) -> float:
        """When the next message is due; infinity if there is none."""
        return self._heap[0][0] if self._heap else math.inf

    def pop(self, now: float, wake_at: float) -> tuple[Update | Ask, float, float] | None:
        """Return the next message that is due by ``now``, when it was received, and the moment from which it counts.

        Return None if there is none, or if the strategy's wake comes first. A message that is due at ``wake_at``
        precedes the wake.
        """
        heap = self._heap
        if not heap or heap[0][0] > now or heap[0][0] > wake_at:
            return None
        due, _, message, received, key = heapq.heappop(heap)
        self._keys.discard(key)
        return message, received, max(due, received)

    # ---- what RecordedOrder (aggregator.course.recorded_order) also offers; here no order is recorded

    consumed = 0
    """Recorded arrivals that are over."""
    next_arrival = None
    """The next recorded arrival."""

    def has_waiting(self, device: str, ticket: int) -> bool:
        """Whether the recorded arrival of this ticket is awaited and its update is here."""
        return False

    def allows_wake(self, moment: float) -> bool:
        """Whether the strategy may be woken at this moment."""
        return True

    def until(self, now: float) -> float:
        """The moment that the run may reach by ``now``."""
        return now

    def is_over(self, wakes: int, wake_at: float) -> bool:
        """Whether the recording has ended."""
        return False

    def take_outdated(self, device: str, ticket: int) -> None:
        """Remove and return a waiting update of an older ticket."""
        return


def _key(message: Update | Ask) -> _Key:
    return type(message), message.device, message.ticket
