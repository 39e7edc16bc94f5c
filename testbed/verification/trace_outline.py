"""One pass over a trace before it is verified: what a call must know of the events that follow it."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass, field

from testbed.emulation.poison import Poison
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
    is_resumed: bool = False
    poisoned: dict[int, Poison] = field(default_factory=dict)
    """Ticket → how its update was falsified."""
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
            case trace.Resumed():
                self.is_resumed = True
            case trace.Poisoned():
                self.poisoned[event.ticket] = Poison(event.how, event.factor)
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


class FinishedJobs:
    """When each job of a run was finished, for the updates that devices keep (ADR 28)."""

    def __init__(self, events: Iterable[trace.Event]) -> None:
        self._ends: dict[str, list[tuple[float, int]]] = {}
        """Device → moment and ticket of each job, in their order."""
        for event in events:
            if isinstance(event, trace.Trained):
                self._ends.setdefault(event.device, []).append((event.t, event.ticket))

    def ticket_at(self, device: str, finished: float) -> int:
        """Return the ticket of the job that ended at this moment, or of the next one; 0 if there is none.

        A device reports the end of a job when it happens or, on a busy host, later, but before its next job begins.
        """
        ends = self._ends.get(device, [])
        place = bisect.bisect_left(ends, (finished, 0))
        return ends[place][1] if place < len(ends) else 0
