"""Evidence about timing, gathered from a trace in one pass; the other modules of ``testbed.fidelity`` judge it.

Theory of operation (ADR 7; for grants ADR 15, for cluster heads ADR 16, for resumed runs ADR 19)

Everything is due at a scheduled moment, so something is late only relative to its due moment, never against the
moment at which a process happened to wake. Three kinds of evidence follow:

Deadlines. A device checks the steps of a job against their deadlines; deadlines closer than 50 host ms are checked
together. It reports the number of checks and each miss. The error of a stretch is |obtained ÷ asked − 1|: a miss makes
its stretch longer by its lateness and the next one, if that ended on time, shorter by the same amount.
Deliveries. A transfer should arrive at ``sent + asked``. An upload arrives when the aggregator
receives it, or when it is due if that is later; time in the aggregator's queue counts as service time. A download
arrives when the device takes it from the transport. Waiting for a core does not count against the link unless the
first deadline of the job was missed.
Handling a message before it was due is *early* and breaks causality, and so is a download that began before its Train
was sent. A Train may be sent several times, and several copies may be on their way at once. The device numbers its
attempts: attempt k follows k copies that were lost, so it cannot begin before copy k was sent.
Round trips. From sending a model to handling its update, by the aggregator's clock alone, which no device can
influence. The asked seconds are the sum of download, computing, suspensions, waiting for a grant and upload. A
ticket is left out (−∞) if a transfer was lost or sent again, if its download waited for a suspended device, or if it
is for a whole cluster or for a gradient. So is one that its device carried to another cluster head (ADR 28): its update
may wait there for the first model, and may have been uploaded to both heads. All round trips of a device are judged by
their sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

from testbed.fidelity.measurements import Computed, Delivery, Evidence
from testbed.history import trace
from testbed.history.event_pass import Handlers, pass_events
from testbed.history.numbered_column import NumberedColumn
from testbed.history.trace import Event
from testbed.wire.ticket_ranges import range_of

E = TypeVar("E", bound=Event)

_END_SECONDS = 0.1
"""Host seconds before the end of a run in which the aggregator may not handle every delivered update."""


def gather(events: Iterable[Event], note: Callable[[Delivery], None] = lambda delivery: None) -> Evidence:
    """All measurements of a trace; each delivery is passed to ``note``."""
    gatherer = EvidenceGatherer(note)
    pass_events(events, gatherer)
    return gatherer.close()


class EvidenceGatherer:
    """A checker that gathers the measurements of a trace; call ``close`` after all events have passed.

    Each delivery is passed to ``note``. What is kept of a ticket that has ended is 9 bytes.
    """

    def __init__(self, note: Callable[[Delivery], None]) -> None:
        self.evidence, self._note = Evidence(), note
        self._sent = NumberedColumn("d", math.nan)
        """Ticket → when its Train was sent first."""
        self._is_over = NumberedColumn("b", 0)
        """Ticket → 1 if it has ended, and no update of it is awaited: nothing more is kept about it."""
        self._heads: dict[int, str] = {}
        """Ticket range → the cluster head; its own updates go over no link."""
        self._range: dict[str, int] = {}
        """Device → the ticket range of its present head."""
        self._carried: set[int] = set()
        """Tickets whose updates arrived at another head than the one that gave them out."""
        self._copies: dict[int, list[float]] = {}
        """Open ticket → when its Train was sent again."""
        self._trips: dict[int, float] = {}
        """Ticket → seconds asked for the parts of its round trip so far; −∞ if the trip is left out."""
        self._dilation = 1.0
        self._downloads: dict[int, trace.Downloaded] = {}
        self._uploads: dict[int, list[trace.Uploaded]] = {}
        self._arrivals: dict[int, list[trace.Arrived]] = {}
        """Ticket → what has no counterpart yet, in order: a device may upload its update to two heads in succession."""
        self._last: dict[tuple[str, bool, int], int] = {}
        self._open: set[int] = set()

    def handlers(self) -> Handlers:
        return {
            trace.Header: self._header,
            trace.Stopped: self._stopped,
            trace.Resumed: self._resumed,
            trace.Load: self.evidence.load.add,
            trace.Canary: self._canary,
            trace.Grouped: self._grouped,
            trace.Trained: self._trained,
            trace.Abandoned: self._abandoned,
            trace.Downloaded: self._downloaded,
            trace.Uploaded: self._uploaded,
            trace.Suspended: lambda event: self._trip(event.ticket, event.asked),
            trace.Arrived: self._arrived,
            trace.Dispatched: self._dispatched,
            trace.Resent: self._resent,
            trace.Aggregated: self._aggregated,
            trace.Merged: self._merged,
            trace.Rejected: self._ended,
            trace.Lost: self._ended,
            trace.Superseded: self._ended,
            trace.Delivered: self._ended,
        }

    def close(self) -> Evidence:
        """Return the evidence. Uploads that were delivered before the end and whose ticket never ended are missing."""
        for download in self._downloads.values():  # no computing followed that could absorb its lateness
            self._delivery(download, download.sent + download.obtained, download.t)
        stopped = self.evidence.stopped
        if stopped is not None:
            missing = [
                upload
                for ticket, kept in self._uploads.items()
                for upload in kept
                if ticket in self._open and not self._is_carried(upload)
            ]
            margin = _END_SECONDS / self._dilation
            self.evidence.bytes_wrong += sum(upload.t < stopped.t - margin for upload in missing)
        return self.evidence

    def _header(self, event: trace.Header) -> None:
        self.evidence.header, self._dilation = event, event.dilation

    def _stopped(self, event: trace.Stopped) -> None:
        self.evidence.stopped = event

    def _resumed(self, event: trace.Resumed) -> None:
        """Devices start again, and may already have reported what they now repeat."""
        self._dilation = event.dilation
        self._sent.clear()
        self._copies.clear()
        self._downloads.clear()
        self._uploads.clear()

    def _canary(self, event: trace.Canary) -> None:
        sums = self.evidence.canaries[event.core]
        sums.slower += event.obtained / event.alone - 1.0
        sums.samples += 1

    def _grouped(self, event: trace.Grouped) -> None:
        self._heads[event.ticket_range] = event.head
        self._range.update(dict.fromkeys(event.members, event.ticket_range))

    # ---- computing

    def _trained(self, event: trace.Trained) -> None:
        device = self._computed(event, event.obtained)
        if event.asked > 0:
            device.asked += event.asked
            device.obtained += event.obtained
            self._trip(event.ticket, event.asked)

    def _abandoned(self, event: trace.Abandoned) -> None:
        self._computed(event, event.seconds)

    def _computed(self, event: trace.ComputeEvent, seconds: float) -> Computed:
        device = self.evidence.computed[event.device]
        download = self._downloads.pop(event.ticket, None)
        if download is not None:
            # waiting for a core is no delay of the link, unless the first deadline was missed
            absorbed = event.checks > 0 and not any(miss.check == 1 for miss in event.misses)
            there = download.sent + (download.asked if absorbed else download.obtained)
            self._delivery(download, there, download.t)
        device.checks += event.checks
        if event.misses:
            device.misses += len(event.misses)
            for error in _step_errors(event):
                self.evidence.errors.add(error)
        if event.use is not None:
            device.metered = True
            device.waited += event.use.waited
            device.stolen += event.use.stolen
            critical = seconds * self._dilation if event.checks else 0.0
            device.critical += critical
            if critical > 0:
                device.worst_job = max(device.worst_job, event.use.stolen / critical)
        return device

    # ---- transfers

    def _downloaded(self, event: trace.Downloaded) -> None:
        # a suspended device takes a message when it wakes: the transfer begins later, never earlier
        sent = self._copy_sent(event.ticket, event.attempt)
        self.evidence.too_early += event.sent < sent - 1e-6
        if not event.dropped:
            self._in_order(event.device, False, event.ticket)
        deferred = event.sent > sent + 1e-6  # the device was suspended
        self._trip(event.ticket, -math.inf if event.dropped or deferred else event.asked)
        if event.dropped:
            self._delivery(event, None)
        else:
            self.evidence.pickups.add(event.obtained - event.asked)
            self._downloads[event.ticket] = event

    def _copy_sent(self, ticket: int, number: int) -> float:
        """When copy ``number`` of a Train was sent. A member may report its download before its head the dispatch."""
        again = self._copies.get(ticket)
        if number == 0 or again is None:
            sent = self._sent[ticket]
            return 0.0 if math.isnan(sent) else sent
        return again[min(number, len(again)) - 1]

    def _uploaded(self, event: trace.Uploaded) -> None:
        """The device's report of an upload may come before or after the arrival at the aggregator."""
        if event.dropped:
            self._delivery(event, None)
            self._trip(event.ticket, -math.inf)
        elif (arrived := _take_first(self._arrivals, event.ticket)) is not None:
            self._match(event, arrived)
        elif event.ticket in self._open or not self._is_over[event.ticket]:
            self._uploads.setdefault(event.ticket, []).append(event)

    def _arrived(self, event: trace.Arrived) -> None:
        self._in_order(event.device, True, event.ticket)
        if self._heads and self._is_carried(event):
            self._carried.add(event.ticket)
        if (upload := _take_first(self._uploads, event.ticket)) is not None:
            self._match(upload, event)
        elif not self._is_own(event):
            self._arrivals.setdefault(event.ticket, []).append(event)

    def _is_own(self, event: trace.Arrived) -> bool:
        """Whether a cluster head got the update from itself."""
        place = range_of(event.ticket)
        return place in self._heads and self._heads[self._range.get(event.device, place)] == event.device

    def _is_carried(self, event: trace.TicketEvent) -> bool:
        """Whether a former head of the device gave the ticket out."""
        place = range_of(event.ticket)
        return place in self._heads and self._range.get(event.device, place) != place

    def _match(self, upload: trace.Uploaded, arrived: trace.Arrived) -> None:
        ticket = upload.ticket
        self.evidence.bytes_wrong += upload.bytes != arrived.bytes
        self._delivery(upload, max(arrived.due, arrived.received), arrived.handled)
        self.evidence.handled.add(arrived.handled - arrived.due)
        # waiting for a grant was decided by the strategy
        asked = self._trips.pop(ticket, 0.0) + (upload.waited or 0.0) + upload.asked
        sent = self._sent[ticket]
        if asked > 0 and not math.isnan(sent) and ticket not in self._carried:
            self._round_trip(upload.device, asked, arrived.handled - sent)
        self._is_over[ticket] = ticket not in self._open

    def _round_trip(self, device: str, asked: float, obtained: float) -> None:
        found = self.evidence.computed[device]
        found.trips += 1
        found.trips_asked += asked
        found.trips_obtained += obtained

    def _delivery(self, event: trace.TransferEvent, arrived: float | None, seen: float | None = None) -> None:
        self._note(
            Delivery(
                device=event.device,
                up=isinstance(event, trace.Uploaded),
                job=event.job,
                attempt=event.attempt,
                sent=event.sent,
                asked=event.asked,
                arrived=arrived,
                seen=seen,
                dropped=event.dropped,
                absent=event.absent or 0.0,
            )
        )

    def _trip(self, ticket: int, asked: float) -> None:
        if ticket in self._open or not self._is_over[ticket]:
            self._trips[ticket] = self._trips.get(ticket, 0.0) + asked

    def _in_order(self, device: str, up: bool, ticket: int) -> None:
        """Tickets of one range only grow, and a link carries one transfer after the other."""
        place = device, up, range_of(ticket)
        self.evidence.out_of_order += ticket < self._last.get(place, 0)
        self._last[place] = ticket

    # ---- the balance of tickets, counted independently of testbed.analysis

    def _dispatched(self, event: trace.Dispatched) -> None:
        self._sent[event.ticket] = event.t
        self._open.add(event.ticket)
        self.evidence.dispatched += 1
        if event.for_cluster or event.gradient:  # the time of its whole cluster; or its upload may begin late
            self._trip(event.ticket, -math.inf)

    def _resent(self, event: trace.Resent) -> None:
        if not math.isnan(self._sent[event.ticket]):
            self._copies.setdefault(event.ticket, []).append(event.t)
        else:  # after a checkpoint, to a new process
            self._sent[event.ticket] = event.t
        self._trip(event.ticket, -math.inf)

    def _aggregated(self, event: trace.Aggregated) -> None:
        fresh = [ticket for ticket in event.tickets if ticket in self._open]  # others are used again
        for ticket in fresh:
            self._settle(ticket, "applied")
        self.evidence.settled_twice += len(fresh) != len(event.staleness)

    def _merged(self, event: trace.Merged) -> None:
        for ticket in event.tickets:
            self._settle(ticket, "applied")

    def _ended(self, event: trace.Rejected | trace.Lost | trace.Superseded | trace.Delivered) -> None:
        self._settle(event.ticket, type(event).__name__.lower())

    def _settle(self, ticket: int, how: str) -> None:
        self.evidence.settled[how] += 1
        self.evidence.settled_twice += ticket not in self._open
        self._open.discard(ticket)
        if ticket not in self._arrivals:  # else the report of its upload will come
            self._is_over[ticket] = 1
            self._carried.discard(ticket)
            for kept in (self._trips, self._copies, self._uploads):
                kept.pop(ticket, None)


def _take_first(kept: dict[int, list[E]], ticket: int) -> E | None:
    """Remove and return the first event of a ticket; None if there is none."""
    events = kept.get(ticket)
    if events is None:
        return None
    first = events.pop(0)
    if not events:
        del kept[ticket]
    return first


def _step_errors(event: trace.ComputeEvent) -> list[float]:
    """Relative errors: a late stretch took longer than asked, and the next one, if it ended on time, shorter."""
    errors, late = [], {miss.check: miss for miss in event.misses}
    for number, miss in late.items():
        before = late[number - 1].late if number - 1 in late else 0.0
        errors.append(abs(miss.late - before) / miss.asked)
        if number < event.checks and number + 1 not in late:
            errors.append(miss.late / miss.asked)
    return errors
