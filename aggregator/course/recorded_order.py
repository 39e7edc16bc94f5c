"""Updates in the order of a recorded run: a strict replay (ADR 13)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from testbed.emulation.recorded import RecordedArrival
from testbed.wire.messages import Ask, Update


class RecordedOrder:
    """Takes the place of :class:`~aggregator.engine.arrivals.Arrivals` in a strict replay.

    It returns updates in the recorded order, each at the moment from which it counted in the recorded run, however
    early or late it is received now. The same strategy with the same seed dispatches to the same devices in the same
    order, so tickets have their recorded numbers. While the next update is missing, the run stands still at its moment.
    """

    def __init__(self, arrivals: Sequence[RecordedArrival], wakes: int) -> None:
        """``wakes``: number of wakes in the recorded run."""
        self._arrivals, self._next, self._wakes = arrivals, 0, wakes
        self._received: dict[str, tuple[Update, float]] = {}
        """Device → its update that waits for its recorded arrival, and when it was received."""

    @property
    def consumed(self) -> int:
        """Recorded arrivals that are over. Set it to resume from a checkpoint."""
        return self._next

    @consumed.setter
    def consumed(self, arrivals: int) -> None:
        self._next = arrivals

    @property
    def next_arrival(self) -> RecordedArrival | None:
        """The next recorded arrival; None after the last one."""
        return self._arrivals[self._next] if self._next < len(self._arrivals) else None

    def has(self, update: Update | Ask) -> bool:
        """Whether an update of this device and ticket is waiting already."""
        return self.has_waiting(update.device, update.ticket)

    def add(self, update: Update | Ask, received: float) -> None:
        assert isinstance(update, Update)  # strategies that grant rates cannot be replayed strictly
        self._received[update.device] = update, received

    @property
    def next_due(self) -> float:
        """Moment of the next update; infinity while it has not been received."""
        arrival = self.next_arrival
        if arrival is None or not self.has_waiting(arrival.device, arrival.ticket):
            return math.inf
        return max(arrival.t, self._received[arrival.device][0].due)

    def pop(self, now: float, wake_at: float) -> tuple[Update, float, float] | None:
        """Return the next update if it is due by ``now``, when it was received, and the moment from which it counts.

        Return None if it has not been received, or if the wake comes first.
        """
        arrival = self.next_arrival
        if arrival is None or arrival.t > wake_at or self.next_due > now:
            return None
        self._next += 1
        update, received = self._received.pop(arrival.device)
        if arrival.started is not None and arrival.finished is not None:
            update = msgspec.structs.replace(update, started=arrival.started, finished=arrival.finished)
        return update, received, arrival.t

    def take_outdated(self, device: str, ticket: int) -> Update | None:
        """Remove and return a waiting update whose ticket is not ``ticket``, the present one of its device.

        Its ticket has ended, so it has no recorded arrival.
        """
        if device not in self._received or self.has_waiting(device, ticket):
            return None
        return self._received.pop(device)[0]

    def has_waiting(self, device: str, ticket: int) -> bool:
        """Whether the update of this ticket has been received and waits for its recorded arrival."""
        return device in self._received and self._received[device][0].ticket == ticket

    def allows_wake(self, moment: float) -> bool:
        """Whether no recorded arrival before or at this moment is missing."""
        arrival = self.next_arrival
        return arrival is None or arrival.t > moment

    def until(self, now: float) -> float:
        """Return the moment that the run has reached: ``now``, but not beyond the next recorded arrival."""
        return now if self.next_arrival is None else min(now, self.next_arrival.t)

    def is_over(self, wakes: int, wake_at: float) -> bool:
        """Whether all arrivals are over, and the strategy has had all recorded wakes or wants no more."""
        return self.next_arrival is None and (wakes >= self._wakes or wake_at == math.inf)
