"""One pass over a trace before it is verified: what a call must know of the events that follow it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from testbed.history import trace
from testbed.history.events.run_events import UNREACHABLE


@dataclass(slots=True)
class TraceOutline:
    """A few facts about a whole trace."""

    header: trace.Header | None = None
    stopped: trace.Stopped | None = None
    arrivals: int = 0
    """Updates, those at cluster heads included."""
    has_heads: bool = False
    adopted: bool = False
    """Whether cluster heads reported which models they have received."""
    scored: set[int] = field(default_factory=set)
    """Versions that were scored."""
    unreachable: set[tuple[str, float]] = field(default_factory=set)
    """Device, and moment at which it was dropped because a message to it could not be sent."""
    unsent: set[tuple[int, float]] = field(default_factory=set)
    """Ticket, and moment, of the messages that could not be sent."""

    def take(self, event: trace.Event) -> None:
        match event:
            case trace.Header():
                self.header = self.header or event
            case trace.Stopped():
                self.stopped = event
            case trace.Arrived():
                self.arrivals += 1
            case trace.Grouped():
                self.has_heads = True
            case trace.Adopted():
                self.adopted = True
            case trace.Scored():
                self.scored.add(event.version)
            case trace.Left() if event.reason == UNREACHABLE:
                self.unreachable.add((event.device, event.t))
            case trace.Lost() if event.reason == UNREACHABLE:
                self.unsent.add((event.ticket, event.t))
            case _:
                pass


def outline(events: Iterable[trace.Event]) -> TraceOutline:
    """Read all events once."""
    found = TraceOutline()
    for event in events:
        found.take(event)
    return found
