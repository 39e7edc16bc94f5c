"""Updates in the order of a recorded run: a strict replay."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from testbed.emulation.recorded import RecordedArrival
from testbed.wire.messages import Ask, Update


class RecordedOrder:
    """Stands where :class:`~aggregator.engine.arrivals.Arrivals` stands. Gives an update out when it is its turn, at the
    moment at which it counted when it was recorded, however early or late it is now.

    The same rule with the same seed asks the same devices in the same order, so that tickets have the numbers that
    they had. Until an update that is late has come, the run stands still at the moment of its turn.
    """

    def __init__(self, turns: Sequence[RecordedArrival], wakes: int) -> None:
        """``wakes``: how often the rule was woken."""
        self._turns, self._next, self._wakes = turns, 0, wakes
        self._here: dict[str, tuple[Update, float]] = {}

    @property
    def consumed(self) -> int:
        """Turns that are over."""
        return self._next

    @consumed.setter
    def consumed(self, turns: int) -> None:
        self._next = turns

    def has(self, update: Update | Ask) -> bool:
        """Whether the same is here already."""
        return self.holds(update.device, update.ticket)

    def add(self, update: Update | Ask, received: float) -> None:
        assert isinstance(update, Update)  # rules that grant rates are not replayed strictly
        self._here[update.device] = update, received

    @property
    def next_due(self) -> float:
        """Infinity while the update whose turn it is has not come."""
        turn = self.turn
        if turn is None or not self.holds(turn.device, turn.ticket):
            return math.inf
        return max(turn.t, self._here[turn.device][0].due)

    def pop(self, now: float, wake_at: float) -> tuple[Update, float, float] | None:
        """The update whose turn has come by ``now``, when it was received, and the moment from which it counts.

        None if the wake comes first, or if it is not here.
        """
        turn = self.turn
        if turn is None or turn.t > wake_at or self.next_due > now:
            return None
        self._next += 1
        update, received = self._here.pop(turn.device)
        if turn.started is not None and turn.finished is not None:
            update = msgspec.structs.replace(update, started=turn.started, finished=turn.finished)
        return update, received, turn.t

    def settled(self, device: str, ticket: int) -> Update | None:
        """Take out an update that is here for another ticket than the device's present one: it has no turn."""
        if device not in self._here or self.holds(device, ticket):
            return None
        return self._here.pop(device)[0]

    def holds(self, device: str, ticket: int) -> bool:
        """Whether the update is here and waits for its turn."""
        return device in self._here and self._here[device][0].ticket == ticket

    def allows_wake(self, moment: float) -> bool:
        """Whether nothing that was recorded before this moment, or at it, is missing."""
        turn = self.turn
        return turn is None or turn.t > moment

    def until(self, now: float) -> float:
        """How far the run has come: not beyond the next turn."""
        return now if self.turn is None else min(now, self.turn.t)

    def is_over(self, wakes: int, wake_at: float) -> bool:
        """Whether all turns were taken, and the rule has been woken as often as it was, or does not want to be."""
        return self.turn is None and (wakes >= self._wakes or wake_at == math.inf)

    @property
    def turn(self) -> RecordedArrival | None:
        """The next one."""
        return self._turns[self._next] if self._next < len(self._turns) else None
