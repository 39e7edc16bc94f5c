"""The ticket office: gives tickets out, keeps the models that they are based on, and settles each exactly once.

A ticket ends as applied, rejected, lost, superseded or (for the final model) delivered; what is not settled is in
flight. Past models are kept exactly as long as an open ticket, or a device that may come back to its old model, needs
them. What becomes of a ticket is recorded here and nowhere else, so the books balance by construction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from aggregator.engine.head_ledgers import Books
from aggregator.engine.past_models import History
from aggregator.engine.tickets import Seat, Tally, Ticket
from testbed.common.statefile import pick, put
from testbed.history import trace
from testbed.wire.messages import LEAD_JOBS, Job, Train, Vector, first_ticket

Record = Callable[[trace.Event], None]


class Office:
    """Of one engine. ``book``: the first of its tickets are those of this book."""

    _KEPT = ("history", "open", "tally", "jobs", "_leads", "_last")

    def __init__(self, model: Vector, record: Record, *, version: int = 0, book: int = 0) -> None:
        self._record = record
        self.history = History(model, version)
        self.open: dict[int, Ticket] = {}
        self.tally = Tally()
        self.jobs: Counter[str] = Counter()
        """Jobs that each device has been sent so far, in all its lives."""
        self._leads: Counter[str] = Counter()
        self._last = first_ticket(book)
        self.books = Books(record, self._count_job)
        """Of the cluster heads."""

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return pick(self, self._KEPT) | {"books": pick(self.books, Books.KEPT)}

    def restore(self, state: dict[str, Any]) -> None:
        put(self.books, state.pop("books"))
        put(self, state)

    def issue(
        self, seat: Seat, job: Job | None, now: float, *, lead: bool = False, grant: bool = False,
        taken: int | None = None,
    ) -> Train:  # fmt: skip
        """A new ticket for a device that has none, on the current model."""
        device, version = seat.info.name, self.history.version
        self._last = number = self._last + 1
        train = Train(
            ticket=number, number=LEAD_JOBS + self._leads[device] if lead else self.jobs[device], version=version,
            sent=now, job=job, model=self.history.model, lead=lead, grant=grant, taken=taken,
        )  # fmt: skip
        seat.ticket = self.open[number] = Ticket(number=number, device=device, train=train, base=version)
        (self._leads if lead else self.jobs)[device] += job is not None
        self.history.hold(version)
        self.tally.dispatched += 1
        steps = 0 if job is None else job.steps_over(seat.info.samples)
        self._record(trace.Dispatched(t=now, device=device, ticket=number, version=version, steps=steps, lead=lead))
        return train

    def begin_book(self, now: float) -> None:
        """There are no clusters any more: the next tickets are larger than those of any head."""
        self._last = first_ticket(self.books.close_all(now))

    def apply(self, ticket: Ticket, now: float) -> None:
        """It is part of a version, or of what a cluster made; the trace tells that of many at once."""
        self.tally.applied += 1
        self._settle(ticket, now, applied=True)

    def reject(self, ticket: Ticket, reason: str, now: float) -> None:
        self.tally.rejected += 1
        self._record(trace.Rejected(t=now, device=ticket.device, ticket=ticket.number, reason=reason))
        self._settle(ticket, now)

    def lose(self, ticket: Ticket, reason: str, now: float) -> None:
        self.tally.lost += 1
        self._record(trace.Lost(t=now, device=ticket.device, ticket=ticket.number, reason=reason))
        self._settle(ticket, now)

    def deliver(self, ticket: Ticket, now: float) -> None:
        self.tally.delivered += 1
        self._record(trace.Delivered(t=now, device=ticket.device, ticket=ticket.number))
        self._settle(ticket, now)

    def supersede(self, seat: Seat, now: float) -> None:
        """What the device is doing, if anything, is no longer wanted."""
        if seat.ticket is not None:
            self.tally.superseded += 1
            self._record(trace.Superseded(t=now, device=seat.info.name, ticket=seat.ticket.number))
            self._settle(seat.ticket, now)
            seat.ticket = None

    def rebase(self, ticket: Ticket, version: int) -> None:
        """The download was lost, and the device went on with the model that it had."""
        self.history.hold(version)
        self.history.release(ticket.base)
        ticket.base = version

    def keep(self, seat: Seat, version: int) -> None:
        """The device has this model now, and may come back to it."""
        self.history.hold(version)
        if seat.held is not None:
            self.history.release(seat.held)
        seat.held = version

    def _settle(self, ticket: Ticket, now: float, *, applied: bool = False) -> None:
        del self.open[ticket.number]
        self.history.release(ticket.base)
        if ticket.train.lead:
            self.books.settle(ticket.number, now, applied=applied)

    def _count_job(self, device: str) -> None:
        self.jobs[device] += 1
