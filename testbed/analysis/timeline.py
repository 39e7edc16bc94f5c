"""The state of each device over time: spans, computed from the events of a trace.

Spans of one device may overlap: a restarted device downloads while its old job still computes. Work that a suspension
interrupts has one span before and one after it. A transfer that was cut off by a newer model or by the end of the run
leaves no event and no span.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from testbed.history import trace
from testbed.history.event_pass import Handlers

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

_MOST_SUSPENSIONS = 256
"""Suspensions of a device that may interrupt one job or one transfer."""


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
    """A checker that passes each span to ``listeners`` as soon as it is known."""

    def __init__(self, *listeners: Callable[[Span], None]) -> None:
        self.listeners = list(listeners)
        self._suspensions: dict[str, deque[trace.Suspended]] = {}
        """Device → its latest suspensions and absences, in order."""
        self._trained: dict[str, int] = {}
        self._died: dict[str, float] = {}
        self._asked: dict[str, trace.Asked] = {}
        """Device → its request for a grant, while it waits."""
        self._granted: dict[str, int] = {}
        """Device → its last ticket that was granted a rate."""

    def handlers(self) -> Handlers:
        return {
            trace.Downloaded: lambda event: self._transferred(event, DOWNLOAD),
            trace.Uploaded: lambda event: self._transferred(event, UPLOAD),
            trace.Suspended: self._suspended,
            trace.Trained: self._finished,
            trace.Abandoned: self._abandoned,
            trace.Asked: self._ask,
            trace.Granted: self._grant,
            trace.Left: lambda event: self._waited(event.device, event.t),
            trace.Dispatched: lambda event: self._waited(event.device, event.t),
            trace.Scripted: self._scripted,
        }

    def end(self, moment: float) -> None:
        """Pass on the spans of devices that are dead or wait at the end of the run."""
        for device in list(self._asked):
            self._waited(device, moment)
        for device in list(self._died):
            self._dead(device, moment)

    def _emit(self, span: Span) -> None:
        for listener in self.listeners:
            listener(span)

    # ---- transfers and computing

    def _transferred(self, event: trace.TransferEvent, state: str) -> None:
        """Emit the spans of a transfer: an absence interrupts it, a suspension of the computing does not."""
        sent, absent = event.sent, event.absent
        end = sent + event.obtained
        if not absent:
            if end > sent:
                span = Span(event.device, state, sent, end, event.ticket, event.dropped)
                for listener in self.listeners:  # not by _emit: most spans are such transfers
                    listener(span)
            return
        since = itertools.takewhile(lambda suspension: suspension.t > sent, self._latest(event.device))
        for start, until in _pieces(end, event.obtained - absent, (each for each in since if each.away)):
            self._emit(Span(event.device, state, start, until, event.ticket, event.dropped))

    def _finished(self, event: trace.Trained) -> None:
        self._trained[event.device] = event.ticket
        self._computed(event, COMPUTING, event.obtained)

    def _abandoned(self, event: trace.Abandoned) -> None:
        if self._trained.get(event.device) != event.ticket:
            self._computed(event, ABANDONED, event.seconds)

    def _computed(self, event: trace.ComputeEvent, state: str, seconds: float) -> None:
        device, ticket = event.device, event.ticket
        if device not in self._suspensions:
            if seconds > 0:
                self._emit(Span(device, state, event.t - seconds, event.t, ticket))
            return
        suspensions = itertools.takewhile(lambda suspension: suspension.ticket == ticket, self._latest(device))
        for start, end in _pieces(event.t, seconds, suspensions):
            self._emit(Span(device, state, start, end, ticket))

    def _suspended(self, event: trace.Suspended) -> None:
        self._suspensions.setdefault(event.device, deque(maxlen=_MOST_SUSPENSIONS)).append(event)
        self._emit(Span(event.device, SUSPENDED, event.since, event.t, event.ticket))

    def _latest(self, device: str) -> Iterable[trace.Suspended]:
        """The suspensions of a device, the last one first."""
        return reversed(self._suspensions.get(device, ()))

    # ---- waiting for a grant, and death

    def _ask(self, event: trace.Asked) -> None:
        if self._granted.get(event.device) != event.ticket:  # else the grant crossed the request
            self._asked[event.device] = event

    def _grant(self, event: trace.Granted) -> None:
        self._granted[event.device] = event.ticket
        self._waited(event.device, event.t)

    def _waited(self, device: str, until: float) -> None:
        if not self._asked:  # only under a strategy that grants rates
            return
        asked = self._asked.pop(device, None)
        if asked is not None and until > asked.t:
            self._emit(Span(device, WAITING, asked.t, until, asked.ticket))

    def _scripted(self, event: trace.Scripted) -> None:
        if event.do == "kill":
            self._waited(event.device, event.t)
            self._died[event.device] = event.t
        elif event.do == "rejoin":
            self._dead(event.device, event.t)

    def _dead(self, device: str, until: float) -> None:
        died = self._died.pop(device, until)
        if until > died:
            self._emit(Span(device, DEAD, died, until, 0))


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
