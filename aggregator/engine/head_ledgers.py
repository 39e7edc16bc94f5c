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
from testbed.wire.messages import Update, book_of

_GONE = "its head has gone"
_REPLACED = "its head was replaced"
_NOT_USED = "what its head made of it was not used"


@dataclass(slots=True, kw_only=True)
class _Book:
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


class Books:
    """Of all heads. ``count_job`` is told of each job that a head gives out."""

    KEPT = ("tally", "_books", "_keepers", "_brought")
    """What a checkpoint keeps of it."""

    def __init__(self, record: Callable[[trace.Event], None], count_job: Callable[[str], None]) -> None:
        self._tell, self._count_job = record, count_job
        self.tally = Tally()
        """Of the tickets of heads. Those of the aggregator itself are not among them."""
        self._books: dict[int, _Book] = {}
        """Cluster → the book that is kept for it now."""
        self._keepers: list[str] = [""]
        """Who keeps, or kept, which book; those of the aggregator itself are nobody's."""
        self._brought: dict[int, _Brought] = {}

    @property
    def in_flight(self) -> int:
        kept = sum(len(book.open) for book in self._books.values())
        return kept + sum(len(brought.tickets) for brought in self._brought.values())

    def open(self, cluster: int, head: str, members: Collection[str], now: float) -> int:
        """The book of a cluster: a new one if it has another head now."""
        book = self._books.get(cluster)
        if book is None or book.head != head:
            if book is not None:
                self._close(book, now, _REPLACED)
            self._keepers.append(head)
            book = self._books[cluster] = _Book(number=len(self._keepers) - 1, cluster=cluster, head=head)
        book.members.update(members)
        return book.number

    def close_of(self, head: str, now: float) -> None:
        """A device has gone; if it was a head, with all that it held."""
        for book in [book for book in self._books.values() if book.head == head]:
            self._close(book, now, _GONE)

    def close_all(self, now: float) -> int:
        """There are no clusters any more. Gives the aggregator a new book: its tickets are to be larger than theirs."""
        for book in list(self._books.values()):
            self._close(book, now, None)
        self._keepers.append("")
        return len(self._keepers) - 1

    def enter(self, device: str, number: int, tables: Sequence[Mapping[str, Any]]) -> None:
        """What a head tells of its book. Raises TraceError for what it may not tell; then nothing is entered."""
        if not 0 < number < len(self._keepers) or self._keepers[number] != device:
            raise trace.TraceError("a Ledger of a cluster that this device does not head")
        events = [trace.head_event(table) for table in tables]
        book = next((book for book in self._books.values() if book.number == number), None)
        if book is None:
            return
        if any(book_of(event.ticket) != number or event.device not in book.members for event in events):
            raise trace.TraceError("a Ledger about tickets or devices of others")
        _check(book, events)
        for event in events:
            self._enter(book, event)

    def bring(self, update: Update) -> None:
        """The update of a head has come; what went into it shares its fate."""
        self._brought[update.ticket] = _Brought(head=update.device, tickets=self._take_out(update))

    def waste(self, update: Update, now: float) -> None:
        """An update has come that nobody waits for. If it is of a head, what went into it is lost."""
        for ticket, (device, _, _) in self._take_out(update).items():
            self._record(trace.Lost(t=now, device=device, ticket=ticket, reason=_NOT_USED))

    def _take_out(self, update: Update) -> dict[int, tuple[str, float, int]]:
        """What went into the update of a head, as far as it is open in its book."""
        book = next((book for book in self._books.values() if book.head == update.device), None)
        if book is None:
            return {}
        return {
            ticket: (book.open.pop(ticket), weight, staleness)
            for ticket, weight, staleness in update.merged
            if ticket in book.open
        }

    def settle(self, lead: int, now: float, *, applied: bool) -> None:
        """The ticket of a head is settled."""
        brought = self._brought.pop(lead, None)
        if brought is None or not brought.tickets:
            return
        if not applied:
            for ticket, (device, _, _) in brought.tickets.items():
                self._record(trace.Lost(t=now, device=device, ticket=ticket, reason=_NOT_USED))
            return
        self._record(
            trace.Merged(
                t=now, device=brought.head, ticket=lead, tickets=list(brought.tickets),
                weights=[weight if math.isfinite(weight) else None for _, weight, _ in brought.tickets.values()],
                staleness=[staleness for _, _, staleness in brought.tickets.values()],
            )
        )  # fmt: skip

    def _enter(self, book: _Book, event: trace.HeadEvent) -> None:
        match event:
            case trace.Dispatched():
                if event.ticket <= book.last:
                    return  # it has told of it before
                book.last, book.open[event.ticket] = event.ticket, event.device
                self._count_job(event.device)
            case trace.Rejected() | trace.Lost() | trace.Superseded():
                if book.open.get(event.ticket) != event.device:
                    return
                del book.open[event.ticket]
            case _:
                pass
        self._record(event)

    def _close(self, book: _Book, now: float, reason: str | None) -> None:
        del self._books[book.cluster]
        for ticket, device in book.open.items():
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


def _check(book: _Book, events: Sequence[trace.HeadEvent]) -> None:
    """What no head can have done: then it is none of ours."""
    running, last = dict(book.open), book.last
    for event in events:
        match event:
            case trace.Dispatched():
                if event.lead or event.steps < 1:
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
