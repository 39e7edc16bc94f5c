"""Accounts of the tickets that cluster heads gave out, as far as the heads have reported them (ADR 16).

A head gives out tickets of its own ticket range and reports what became of them. Each ticket ends once, like any
other: the head reports it as rejected, lost or superseded; or its update is merged into a result of the head and is
applied or lost together with the head's own ticket; or its ledger is closed, because the head has gone or was
replaced, or because there are no clusters any more. A report about a closed ledger comes too late: all its tickets have
ended.

At a clustering for which nobody trains, devices carry their jobs from the old heads to the new ones (ADR 28): the open
ticket of each device moves to the ledger of its new head, which reports how it ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from aggregator.engine.tickets import Tally
from testbed.history import trace
from testbed.wire.messages import Update
from testbed.wire.ticket_ranges import range_of

_GONE = "its head has gone"
_REPLACED = "its head was replaced"
_NOT_USED = "the result of its head was not used"
BY_THE_AGGREGATOR = frozenset((_GONE, _REPLACED, _NOT_USED))
"""Why the aggregator, and no head, records a ticket of a head as lost."""


@dataclass(slots=True, kw_only=True)
class HeadLedger:
    """The account of one head."""

    number: int
    """Its ticket range."""
    cluster: int
    head: str
    members: set[str] = field(default_factory=set)
    """All members so far: the head may still report on one that has left."""
    last: int = 0
    """The largest ticket that the head has reported."""
    open: dict[int, str] = field(default_factory=dict)
    """Ticket → device."""
    carried: dict[int, str] = field(default_factory=dict)
    """Ticket → device of each ticket that a former head gave out. It is in ``open`` until it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """The tickets whose updates are merged in a result of a head. They end together with the head's own ticket."""

    head: str
    tickets: Mapping[int, tuple[str, float, int]]
    """Ticket → device, weight, staleness."""


class HeadLedgers:
    """The ledgers of all heads. ``count_job`` is called with the device of each job that a head gives out."""

    KEPT = ("tally", "ledgers", "head_of_range", "brought")
    """What a checkpoint keeps."""

    def __init__(self, record: Callable[[trace.Event], None], count_job: Callable[[str], None]) -> None:
        self._write, self._count_job = record, count_job
        self.tally = Tally()
        """Counts of the tickets of heads, without those of the aggregator itself."""
        self.ledgers: dict[int, HeadLedger] = {}
        """Cluster → its present ledger."""
        self.head_of_range: list[str] = [""]
        """The head, present or past, of each ticket range; "" for the ranges of the aggregator itself."""
        self.brought: dict[int, Brought] = {}
        """Open ticket of a head → what is merged in its result."""
        self._moving: dict[str, int] = {}
        """Device → the ticket that it carries to its next head. It is empty between two events."""

    @property
    def in_flight(self) -> int:
        """Tickets of heads that have not ended."""
        reported = sum(len(ledger.open) for ledger in self.ledgers.values())
        return reported + sum(len(brought.tickets) for brought in self.brought.values())

    def open(self, cluster: int, head: str, members: Collection[str], now: float) -> int:
        """Return the ticket range of a cluster: a new one if the cluster is new or has another head.

        Members of a new cluster bring the tickets that they carry.
        """
        ledger = self.ledgers.get(cluster)
        if ledger is None or ledger.head != head:
            if ledger is not None:
                self._close(ledger, now, _REPLACED)
            self.head_of_range.append(head)
            number = len(self.head_of_range) - 1
            carried = {self._moving.pop(member): member for member in members if member in self._moving}
            ledger = HeadLedger(number=number, cluster=cluster, head=head, open=dict(carried), carried=carried)
            self.ledgers[cluster] = ledger
        ledger.members.update(members)
        return ledger.number

    def carried_in(self, cluster: int) -> tuple[tuple[str, int], ...]:
        """Return device and ticket of each job of a former head that is open in this cluster."""
        ledger = self.ledgers[cluster]
        return tuple((device, ticket) for ticket, device in ledger.carried.items() if ticket in ledger.open)

    def close_of(self, device: str, now: float) -> None:
        """Close the ledgers of a device that has gone, if it was a head. Their open tickets are lost."""
        for ledger in [ledger for ledger in self.ledgers.values() if ledger.head == device]:
            self._close(ledger, now, _GONE)

    def close_all(self, now: float, *, carried_by: Collection[str] = ()) -> int:
        """End all clusters: open tickets are superseded. Return a new ticket range for the aggregator itself.

        The devices in ``carried_by`` keep their last open tickets, for the clusters that are opened next.
        """
        tickets = sorted((ticket, device) for ledger in self.ledgers.values() for ticket, device in ledger.open.items())
        self._moving = {device: ticket for ticket, device in tickets if device in carried_by}
        for ledger in list(self.ledgers.values()):
            ledger.open = {ticket: name for ticket, name in ledger.open.items() if self._moving.get(name) != ticket}
            self._close(ledger, now, None)
        self.head_of_range.append("")
        return len(self.head_of_range) - 1

    def enter(self, device: str, number: int, events: Sequence[trace.HeadEvent]) -> None:
        """Enter the events of a head report. Raises TraceError if the head may not report one; then none is entered."""
        if not 0 < number < len(self.head_of_range) or self.head_of_range[number] != device:
            raise trace.TraceError("a HeadReport of a cluster that this device does not head")
        ledger = next((ledger for ledger in self.ledgers.values() if ledger.number == number), None)
        if ledger is None:
            return
        if not all(_belongs(event, ledger) for event in events):
            raise trace.TraceError("a HeadReport about tickets or devices of another cluster")
        _check(ledger, events)
        for event in events:
            self._enter(ledger, event)

    def bring(self, update: Update) -> None:
        """Note what is merged in the result of a head, which awaits a decision now."""
        self.brought[update.ticket] = Brought(head=update.device, tickets=self._take_out(update))

    def lose_merged(self, update: Update, now: float) -> None:
        """End what is merged in an update that is ignored, if its device is a head.

        Not if the update is from before the last clustering: what is merged in it has ended, or is carried.
        """
        if range_of(update.ticket) >= self._own_range:
            self._lose(self._take_out(update), now)

    @property
    def _own_range(self) -> int:
        """The last ticket range of the aggregator itself."""
        return max(number for number, head in enumerate(self.head_of_range) if not head)

    def _take_out(self, update: Update) -> dict[int, tuple[str, float, int]]:
        """Remove from the ledger of a head, and return, the open tickets that are merged in its update."""
        ledger = next((ledger for ledger in self.ledgers.values() if ledger.head == update.device), None)
        if ledger is None:
            return {}
        return {
            ticket: (ledger.open.pop(ticket), weight, staleness)
            for ticket, weight, staleness in update.merged
            if ticket in ledger.open
        }

    def settle(self, head_ticket: int, now: float, *, applied: bool) -> None:
        """End what is merged in the result of a head whose own ticket has ended."""
        brought = self.brought.pop(head_ticket, None)
        if brought is None or not brought.tickets:
            return
        if not applied:
            self._lose(brought.tickets, now)
            return
        self._record(
            trace.Merged(
                t=now,
                device=brought.head,
                ticket=head_ticket,
                tickets=list(brought.tickets),
                weights=[weight if math.isfinite(weight) else None for _, weight, _ in brought.tickets.values()],
                staleness=[staleness for _, _, staleness in brought.tickets.values()],
            )
        )

    def _lose(self, tickets: Mapping[int, tuple[str, float, int]], now: float) -> None:
        for ticket, (device, _, _) in tickets.items():
            self._record(trace.Lost(t=now, device=device, ticket=ticket, reason=_NOT_USED))

    def _enter(self, ledger: HeadLedger, event: trace.HeadEvent) -> None:
        match event:
            case trace.Dispatched():
                if event.ticket <= ledger.last:
                    return  # it was reported before
                ledger.last, ledger.open[event.ticket] = event.ticket, event.device
                self._count_job(event.device)
            case trace.Rejected() | trace.Lost() | trace.Superseded():
                if ledger.open.get(event.ticket) != event.device:
                    return
                del ledger.open[event.ticket]
            case _:
                pass
        self._record(event)

    def _close(self, ledger: HeadLedger, now: float, reason: str | None) -> None:
        del self.ledgers[ledger.cluster]
        for ticket, device in ledger.open.items():
            if reason is None:
                self._record(trace.Superseded(t=now, device=device, ticket=ticket))
            else:
                self._record(trace.Lost(t=now, device=device, ticket=ticket, reason=reason))

    def _record(self, event: trace.Event) -> None:
        match event:
            case trace.Dispatched():
                self.tally.dispatched += 1
            case trace.Merged():
                self.tally.applied += len(event.tickets)
            case trace.Rejected():
                self.tally.rejected += 1
            case trace.Lost():
                self.tally.lost += 1
            case trace.Superseded():
                self.tally.superseded += 1
            case _:
                pass
        self._write(event)


def _belongs(event: trace.HeadEvent, ledger: HeadLedger) -> bool:
    """Whether the head of this ledger may report an event about this device, ticket and range."""
    match event:
        case trace.Adopted():
            return event.device == ledger.head
        case trace.Regrouped() | trace.Paused():
            return event.device == ledger.head and event.ticket_range == ledger.number
        case trace.Carried():
            return ledger.carried.get(event.ticket) == event.device
        case _:
            is_known = range_of(event.ticket) == ledger.number or event.ticket in ledger.carried
            return is_known and event.device in ledger.members


def _check(ledger: HeadLedger, events: Sequence[trace.HeadEvent]) -> None:
    """Raises TraceError for events that no head can cause: then the report does not come from a head of this run."""
    running, last = dict(ledger.open), ledger.last
    for event in events:
        match event:
            case trace.Dispatched():
                if event.for_cluster or event.gradient or event.steps < 1 or event.ticket in ledger.carried:
                    raise trace.TraceError("a HeadReport about a job that a head does not give out")
                if event.ticket > last:
                    last, running[event.ticket] = event.ticket, event.device
            case trace.Arrived() | trace.Resent():
                if running.get(event.ticket) != event.device:
                    raise trace.TraceError("a HeadReport about a ticket that is not open")
            case trace.Rejected() | trace.Lost() | trace.Superseded():
                if running.get(event.ticket) == event.device:
                    del running[event.ticket]
            case _:
                pass
