"""The books of cluster heads, as far as they have told: whose tickets are open, and what becomes of them.

A head gives out tickets of a book of its own and tells what becomes of them. Each is settled once, like all others:
by the head (rejected, lost, superseded), together with the head's own ticket which its update went into (applied, or
lost with it), or when the book is closed because the head has gone, was replaced, or there are no clusters any more.
What a head tells of a book that is closed is too late: it has been settled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aggregator.engine.tickets import Tally
from testbed.history import trace
from testbed.wire.messages import Update, range_of

_GONE = "its head has gone"
_REPLACED = "its head was replaced"
_NOT_USED = "what its head made of it was not used"


@dataclass(slots=True, kw_only=True)
class _HeadLedger:
    number: int
    cluster: int
    head: str
    members: set[str] = field(default_factory=set)
    """All that it ever had: of one that has left, there may be something left to tell."""
    last: int = 0
    open: dict[int, str] = field(default_factory=dict)
    """Ticket → device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Brought:
    """What went into the update of a head that is not settled itself."""

    head: str
    tickets: Mapping[int, tuple[str, float, int]]
    """Ticket → device, weight, staleness."""


class HeadLedgers:
    """Of all heads. ``count_job`` is told of each job that a head gives out."""

    KEPT = ("tally", "_ledgers", "_heads", "_brought")
    """What a checkpoint keeps of it."""

    def __init__(self, record: Callable[[trace.Event], None], count_job: Callable[[str], None]) -> None:
        self._tell, self._count_job = record, count_job
        self.tally = Tally()
        """Of the tickets of heads. Those of the aggregator itself are not among them."""
        self._ledgers: dict[int, _HeadLedger] = {}
        """Cluster → the book that is kept for it now."""
        self._heads: list[str] = [""]
        """Who keeps, or kept, which book; those of the aggregator itself are nobody's."""
        self._brought: dict[int, _Brought] = {}

    @property
    def in_flight(self) -> int:
        kept = sum(len(ledger.open) for ledger in self._ledgers.values())
        return kept + sum(len(brought.tickets) for brought in self._brought.values())

    def open(self, cluster: int, head: str, members: Collection[str], now: float) -> int:
        """The book of a cluster: a new one if it has another head now."""
        ledger = self._ledgers.get(cluster)
        if ledger is None or ledger.head != head:
            if ledger is not None:
                self._close(ledger, now, _REPLACED)
            self._heads.append(head)
            ledger = self._ledgers[cluster] = _HeadLedger(number=len(self._heads) - 1, cluster=cluster, head=head)
        ledger.members.update(members)
        return ledger.number

    def close_of(self, head: str, now: float) -> None:
        """A device has gone; if it was a head, with all that it held."""
        for ledger in [ledger for ledger in self._ledgers.values() if ledger.head == head]:
            self._close(ledger, now, _GONE)

    def close_all(self, now: float) -> int:
        """There are no clusters any more. Gives the aggregator a new book: its tickets are to be larger than theirs."""
        for ledger in list(self._ledgers.values()):
            self._close(ledger, now, None)
        self._heads.append("")
        return len(self._heads) - 1

    def enter(self, device: str, number: int, tables: Sequence[Mapping[str, Any]]) -> None:
        """What a head tells of its book. Raises TraceError for what it may not tell; then nothing is entered."""
        if not 0 < number < len(self._heads) or self._heads[number] != device:
            raise trace.TraceError("a Ledger of a cluster that this device does not head")
        events = [trace.head_event(table) for table in tables]
        ledger = next((ledger for ledger in self._ledgers.values() if ledger.number == number), None)
        if ledger is None:
            return
        if any(range_of(event.ticket) != number or event.device not in ledger.members for event in events):
            raise trace.TraceError("a Ledger about tickets or devices of others")
        _check(ledger, events)
        for event in events:
            self._enter(ledger, event)

    def bring(self, update: Update) -> None:
        """The update of a head has come; what went into it shares its fate."""
        self._brought[update.ticket] = _Brought(head=update.device, tickets=self._take_out(update))

    def waste(self, update: Update, now: float) -> None:
        """An update has come that nobody waits for. If it is of a head, what went into it is lost."""
        for ticket, (device, _, _) in self._take_out(update).items():
            self._record(trace.Lost(t=now, device=device, ticket=ticket, reason=_NOT_USED))

    def _take_out(self, update: Update) -> dict[int, tuple[str, float, int]]:
        """What went into the update of a head, as far as it is open in its book."""
        ledger = next((ledger for ledger in self._ledgers.values() if ledger.head == update.device), None)
        if ledger is None:
            return {}
        return {
            ticket: (ledger.open.pop(ticket), weight, staleness)
            for ticket, weight, staleness in update.merged
            if ticket in ledger.open
        }

    def settle(self, head_ticket: int, now: float, *, applied: bool) -> None:
        """The ticket of a head is settled."""
        brought = self._brought.pop(head_ticket, None)
        if brought is None or not brought.tickets:
            return
        if not applied:
            for ticket, (device, _, _) in brought.tickets.items():
                self._record(trace.Lost(t=now, device=device, ticket=ticket, reason=_NOT_USED))
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

    def _enter(self, ledger: _HeadLedger, event: trace.HeadEvent) -> None:
        match event:
            case trace.Dispatched():
                if event.ticket <= ledger.last:
                    return  # it has told of it before
                ledger.last, ledger.open[event.ticket] = event.ticket, event.device
                self._count_job(event.device)
            case trace.Rejected() | trace.Lost() | trace.Superseded():
                if ledger.open.get(event.ticket) != event.device:
                    return
                del ledger.open[event.ticket]
            case _:
                pass
        self._record(event)

    def _close(self, ledger: _HeadLedger, now: float, reason: str | None) -> None:
        del self._ledgers[ledger.cluster]
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
        self._tell(event)


def _check(ledger: _HeadLedger, events: Sequence[trace.HeadEvent]) -> None:
    """What no head can have done: then it is none of ours."""
    running, last = dict(ledger.open), ledger.last
    for event in events:
        match event:
            case trace.Dispatched():
                if event.for_cluster or event.steps < 1:
                    raise trace.TraceError("a Ledger about a job that a head does not give out")
                if event.ticket > last:
                    last, running[event.ticket] = event.ticket, event.device
            case trace.Arrived() | trace.Resent():
                if running.get(event.ticket) != event.device:
                    raise trace.TraceError("a Ledger about a ticket that is not open")
            case trace.Rejected() | trace.Lost() | trace.Superseded():
                if running.get(event.ticket) == event.device:
                    del running[event.ticket]
            case _:
                pass
