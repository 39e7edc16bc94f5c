"""What a trace says about timing, gathered in one pass for the certificate (``testbed.fidelity``)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from testbed.history import trace
from testbed.history.trace import Event
from testbed.wire.messages import range_of

_CLOCK_GRAIN = 1e-6
_END_SECONDS = 0.1
"""Host seconds: what is delivered in the last moment of a run may not be taken up any more."""


@dataclass(slots=True, kw_only=True)
class Computed:
    """The computing of one device."""

    checks: int = 0
    errors: list[float] = field(default_factory=list)
    """|obtained ÷ asked − 1| from one checked deadline to the next, where it is not zero."""
    misses: int = 0
    asked: float = 0.0
    obtained: float = 0.0
    """Of finished jobs."""
    trips: list[tuple[float, float]] = field(default_factory=list)
    """Seconds asked and obtained from sending a model to taking up its update, by the aggregator's own clock, where
    nothing was lost on the way."""
    waited: float = 0.0
    stolen: float = 0.0
    critical: float = 0.0
    """Host seconds that it waited for its core, those of them that cost it a deadline, and in which it had one."""
    worst_job: float = 0.0
    """Largest stolen share of one job."""
    metered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A transfer that arrived, or was lost when it should have."""

    device: str
    up: bool
    job: int
    attempt: int
    sent: float
    asked: float
    arrived: float | None
    """When it was there; None: lost, or not seen to arrive."""
    seen: float | None
    """When somebody acted on it, which must not be before it was due."""
    dropped: bool
    absent: float = 0.0
    """Of the seconds asked for, those for which the device was away."""

    @property
    def is_early(self) -> bool:
        return self.seen is not None and self.seen < self.sent + self.asked - _CLOCK_GRAIN

    @property
    def late(self) -> float:
        assert self.arrived is not None
        return self.arrived - self.sent - self.asked


@dataclass(slots=True, kw_only=True)
class Evidence:
    header: trace.Header | None = None
    stopped: trace.Stopped | None = None
    computed: dict[str, Computed] = field(default_factory=lambda: defaultdict(Computed))
    deliveries: list[Delivery] = field(default_factory=list)
    pickups: list[float] = field(default_factory=list)
    """Seconds after it was due until a device's process took a model from the transport."""
    handled: list[float] = field(default_factory=list)
    """Seconds after it was due until the aggregator took an update up, others before it."""
    loads: list[trace.Load] = field(default_factory=list)
    canaries: list[trace.Canary] = field(default_factory=list)
    too_early: int = 0
    """Downloads whose way began before the aggregator sent them."""
    out_of_order: int = 0
    bytes_wrong: int = 0
    settled: Counter[str] = field(default_factory=Counter)
    dispatched: int = 0
    settled_twice: int = 0


def gather(events: Iterable[Event]) -> Evidence:
    found = _Gatherer()
    for event in events:
        found.take(event)
    found.close()
    return found.evidence


class _Gatherer:
    def __init__(self) -> None:
        self.evidence = Evidence()
        self._sent: dict[int, float] = {}
        self._first_sent: dict[int, float] = {}
        """A member of a cluster may tell of a download that was lost after its head told that it was sent again."""
        self._trips: dict[int, float] = {}
        """Seconds asked for the parts of a ticket's round trip so far, -inf where it was not a smooth one."""
        self._dilation = 1.0
        self._downloads: dict[int, trace.Downloaded] = {}
        self._uploads: dict[int, trace.Uploaded] = {}
        self._arrived: dict[int, trace.Arrived] = {}
        self._last: dict[tuple[str, bool, int], int] = {}
        self._open: set[int] = set()

    def take(self, event: Event) -> None:
        evidence = self.evidence
        match event:
            case trace.Header():
                evidence.header, self._dilation = event, event.dilation
            case trace.Stopped():
                evidence.stopped = event
            case trace.Resumed():  # devices begin anew, and may have told of what they now do once more
                self._dilation = event.dilation
                self._downloads.clear()
                self._uploads.clear()
            case trace.Load():
                evidence.loads.append(event)
            case trace.Canary():
                evidence.canaries.append(event)
            case trace.Trained() | trace.Abandoned():
                self._computed(event)
            case trace.Downloaded():
                self._downloaded(event)
            case trace.Uploaded() if event.dropped:
                self._delivery(event, None)
                self._trip(event.ticket, -math.inf)
            case trace.Suspended():
                self._trip(event.ticket, event.asked)
            case trace.Uploaded():
                self._uploads[event.ticket] = event
                self._match(event.ticket)
            case trace.Arrived():
                self._arrived[event.ticket] = event
                self._in_order(event.device, True, event.ticket)
                self._match(event.ticket)
            case _:
                self._ticket(event)

    def close(self) -> None:
        """An upload that was through before the end, and whose ticket nobody settled, went missing on the way."""
        for download in self._downloads.values():  # nobody computed with it, so nothing absorbed anything
            self._delivery(download, download.sent + download.obtained, download.t)
        stopped = self.evidence.stopped
        if stopped is not None:
            missing = [upload for upload in self._uploads.values() if upload.ticket in self._open]
            margin = _END_SECONDS / self._dilation
            self.evidence.bytes_wrong += sum(upload.t < stopped.t - margin for upload in missing)

    def _computed(self, event: trace.Trained | trace.Abandoned) -> None:
        device = self.evidence.computed[event.device]
        download = self._downloads.pop(event.ticket, None)
        if download is not None:
            # a core that the device waited for is no delay of its link, unless the first deadline suffered from it
            absorbed = event.checks > 0 and not any(miss.check == 1 for miss in event.misses)
            there = download.sent + (download.asked if absorbed else download.obtained)
            self._delivery(download, there, download.t)
        device.checks += event.checks
        device.misses += len(event.misses)
        device.errors += _step_errors(event)
        if isinstance(event, trace.Trained) and event.asked > 0:
            device.asked += event.asked
            device.obtained += event.obtained
            self._trip(event.ticket, event.asked)
        if event.use is not None:
            device.metered = True
            device.waited += event.use.waited
            device.stolen += event.use.stolen
            seconds = event.obtained if isinstance(event, trace.Trained) else event.seconds
            critical = seconds * self._dilation if event.checks else 0.0
            device.critical += critical
            if critical > 0:
                device.worst_job = max(device.worst_job, event.use.stolen / critical)

    def _downloaded(self, event: trace.Downloaded) -> None:
        # a suspended device takes a message up when it wakes: its way begins later, never earlier
        sent = (self._first_sent if event.dropped else self._sent).get(event.ticket, 0.0)
        self.evidence.too_early += event.sent < sent - 1e-6
        if not event.dropped:
            self._in_order(event.device, False, event.ticket)
        deferred = event.sent > self._sent.get(event.ticket, 0.0) + 1e-6  # it came while the device was suspended
        self._trip(event.ticket, -math.inf if event.dropped or deferred else event.asked)
        if event.dropped:
            self._delivery(event, None)
        else:
            self.evidence.pickups.append(event.obtained - event.asked)
            self._downloads[event.ticket] = event

    def _match(self, ticket: int) -> None:
        """A device tells of its upload a little after the aggregator has seen the update, or before."""
        if ticket in self._uploads and ticket in self._arrived:
            upload, arrived = self._uploads.pop(ticket), self._arrived.pop(ticket)
            self.evidence.bytes_wrong += upload.bytes != arrived.bytes
            self._delivery(upload, max(arrived.due, arrived.received), arrived.handled)
            self.evidence.handled.append(arrived.handled - arrived.due)
            # that it had to wait for a grant was the rule's wish
            asked = self._trips.pop(ticket, 0.0) + (upload.waited or 0.0) + upload.asked
            if ticket in self._sent and asked > 0:
                self.evidence.computed[upload.device].trips.append((asked, arrived.handled - self._sent[ticket]))

    def _delivery(self, event: trace.TransferEvent, arrived: float | None, seen: float | None = None) -> None:
        self.evidence.deliveries.append(
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
        self._trips[ticket] = self._trips.get(ticket, 0.0) + asked

    def _in_order(self, device: str, up: bool, ticket: int) -> None:
        """Tickets of one book only grow, and a link carries one transfer after the other."""
        place = device, up, range_of(ticket)
        self.evidence.out_of_order += ticket < self._last.get(place, 0)
        self._last[place] = ticket

    def _ticket(self, event: Event) -> None:
        match event:
            case trace.Dispatched():
                self._sent[event.ticket] = self._first_sent[event.ticket] = event.t
                self._open.add(event.ticket)
                self.evidence.dispatched += 1
                if event.for_cluster:  # what its cluster takes is no matter of the head
                    self._trip(event.ticket, -math.inf)
            case trace.Resent():
                self._sent[event.ticket] = event.t
                self._trip(event.ticket, -math.inf)
            case trace.Aggregated():
                fresh = [ticket for ticket in event.tickets if ticket in self._open]  # others are used once more
                for ticket in fresh:
                    self._settle(ticket, "applied")
                self.evidence.settled_twice += len(fresh) != len(event.staleness)
            case trace.Merged():
                for ticket in event.tickets:
                    self._settle(ticket, "applied")
            case trace.Rejected() | trace.Lost() | trace.Superseded() | trace.Delivered():
                self._settle(event.ticket, type(event).__name__.lower())
            case _:
                pass

    def _settle(self, ticket: int, how: str) -> None:
        self.evidence.settled[how] += 1
        self.evidence.settled_twice += ticket not in self._open
        self._open.discard(ticket)


def _step_errors(event: trace.ComputeEvent) -> list[float]:
    """A step that ended late took longer than asked; if the next one was on time, it took less."""
    errors, late = [], {miss.check: miss for miss in event.misses}
    for number, miss in late.items():
        before = late[number - 1].late if number - 1 in late else 0.0
        errors.append(abs(miss.late - before) / miss.asked)
        if number < event.checks and number + 1 not in late:
            errors.append(miss.late / miss.asked)
    return errors
