"""The state of each device over time: spans, computed from the events of a trace.

Spans of one device may overlap: a restarted device downloads while its old job still computes. Work that a suspension
interrupts has one span before and one after it. A transfer that was cut off by a newer model or by the end of the run
leaves no event and no span.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from testbed.history import trace
from testbed.history.trace import Event

DOWNLOAD, COMPUTING, UPLOAD, SUSPENDED, ABANDONED, DEAD, WAITING = (
    "download",
    "computing",
    "upload",
    "suspended",
    "abandoned",
    "dead",
    "waiting",
)
STATES = (DOWNLOAD, COMPUTING, UPLOAD, SUSPENDED, ABANDONED, DEAD, WAITING)
"""``abandoned``: computing that was discarded for a newer model or cut off by the end of the run. ``waiting``: the
update is ready, but the device has no grant to upload it.
"""


class Span(NamedTuple):
    """A device is in one state from ``start`` to ``end``, in emulated seconds."""

    device: str
    state: str
    start: float
    end: float
    ticket: int
    """0 if it belongs to no ticket."""
    lost: bool = False
    """Whether it is a lost transfer."""

    @property
    def seconds(self) -> float:
        return self.end - self.start


class Timeline:
    """Takes the events of a trace one after another and yields the spans that are then known."""

    def __init__(self) -> None:
        self._suspensions: dict[str, list[trace.Suspended]] = {}
        """Device → its suspensions and absences, in order."""
        self._trained: dict[str, int] = {}
        self._died: dict[str, float] = {}
        self._asked: dict[str, trace.Asked] = {}
        """Device → its request for a grant, while it waits."""
        self._granted: dict[str, int] = {}
        """Device → its last ticket that was granted a rate."""

    def take(self, event: Event) -> Iterator[Span]:
        match event:
            case trace.Downloaded():
                yield from self._transferred(event, DOWNLOAD)
            case trace.Uploaded():
                yield from self._transferred(event, UPLOAD)
            case trace.Suspended():
                self._suspensions.setdefault(event.device, []).append(event)
                yield Span(event.device, SUSPENDED, event.since, event.t, event.ticket)
            case trace.Trained():
                self._trained[event.device] = event.ticket
                yield from self._computed(event, COMPUTING, event.obtained)
            case trace.Abandoned() if self._trained.get(event.device) != event.ticket:
                yield from self._computed(event, ABANDONED, event.seconds)
            case trace.Asked() if self._granted.get(event.device) != event.ticket:  # else the grant crossed the request
                self._asked[event.device] = event
            case trace.Granted():
                self._granted[event.device] = event.ticket
                yield from self._waited(event.device, event.t)
            case trace.Left() | trace.Dispatched():
                yield from self._waited(event.device, event.t)
            case trace.Scripted(do="kill"):
                yield from self._waited(event.device, event.t)
                self._died[event.device] = event.t
            case trace.Scripted(do="rejoin"):
                yield from self._dead(event.device, event.t)
            case _:
                pass

    def end(self, moment: float) -> Iterator[Span]:
        """The spans of devices that are dead or wait at the end of the run."""
        for device in list(self._asked):
            yield from self._waited(device, moment)
        for device in list(self._died):
            yield from self._dead(device, moment)

    def _transferred(self, event: trace.TransferEvent, state: str) -> Iterator[Span]:
        """Spans of a transfer: an absence interrupts it, a suspension of the computing does not."""
        end, absent = event.sent + event.obtained, event.absent or 0.0
        pieces = [(event.sent, end)] if end > event.sent else []
        if absent:
            since = itertools.takewhile(lambda suspension: suspension.t > event.sent, self._latest(event.device))
            pieces = _pieces(end, event.obtained - absent, (suspension for suspension in since if suspension.away))
        for start, until in pieces:
            yield Span(event.device, state, start, until, event.ticket, event.dropped)

    def _computed(self, event: trace.ComputeEvent, state: str, seconds: float) -> Iterator[Span]:
        suspensions = itertools.takewhile(
            lambda suspension: suspension.ticket == event.ticket, self._latest(event.device)
        )
        for start, end in _pieces(event.t, seconds, suspensions):
            yield Span(event.device, state, start, end, event.ticket)

    def _latest(self, device: str) -> Iterator[trace.Suspended]:
        """The suspensions of a device, the last one first."""
        return reversed(self._suspensions.get(device, []))

    def _waited(self, device: str, until: float) -> Iterator[Span]:
        asked = self._asked.pop(device, None)
        if asked is not None and until > asked.t:
            yield Span(device, WAITING, asked.t, until, asked.ticket)

    def _dead(self, device: str, until: float) -> Iterator[Span]:
        died = self._died.pop(device, until)
        if until > died:
            yield Span(device, DEAD, died, until, 0)


def _pieces(end: float, seconds: float, suspensions: Iterable[trace.Suspended]) -> list[tuple[float, float]]:
    """Pieces with a total length of ``seconds`` that end at ``end`` and leave out the suspensions.

    They are laid out backwards from the end: a device reports the end of a suspension and of a job a moment later, so
    that the moments of a job and of its suspensions do not fit exactly.
    """
    pieces = []
    for suspension in suspensions:
        length = min(seconds, end - suspension.t)
        if length > 0:
            pieces.append((end - length, end))
            seconds -= length
        end = min(end, suspension.since)
    if seconds > 0:
        pieces.append((end - seconds, end))
    return pieces[::-1]


def spans(events: Iterable[Event], ended: float | None = None) -> Iterator[Span]:
    """All spans of a trace, in the order in which they become known."""
    timeline, last = Timeline(), 0.0
    for event in events:
        if not isinstance(event, trace.Scored):  # a score may come after the end
            last = event.t if isinstance(event, trace.Stopped) else max(last, event.t)
        yield from timeline.take(event)
    yield from timeline.end(last if ended is None else ended)
