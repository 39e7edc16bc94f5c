"""The events of a trace one by one, with their lines, and a look at those that follow."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from testbed.history.trace import Event


class TraceCursor:
    """Moves over the events of a trace. Only the events that were looked at ahead are kept in memory."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._rest = iter(events)
        self._ahead: deque[Event] = deque()
        self.line = 0
        """Line of the present event, from 1."""
        self.event: Event | None = None
        """The present event; None before the first and after the last one."""

    def advance(self) -> Event | None:
        """Move to the next event and return it; None at the end."""
        self.event = self._ahead.popleft() if self._ahead else next(self._rest, None)
        self.line += 1
        return self.event

    def ahead(self) -> Iterator[Event]:
        """The events after the present one. The cursor does not move."""
        yield from list(self._ahead)
        for event in self._rest:
            self._ahead.append(event)
            yield event
