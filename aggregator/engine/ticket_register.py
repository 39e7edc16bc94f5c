"""The ticket office: gives tickets out, keeps the models that they are based on, and settles each exactly once.

A ticket ends as applied, rejected, lost, superseded or (for the final model) delivered; what is not settled is in
flight. Past models are kept exactly as long as an open ticket, or a device that may come back to its old model, needs
them. What becomes of a ticket is recorded here and nowhere else, so the books balance by construction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from aggregator.engine.head_ledgers import HeadLedgers
from aggregator.engine.past_models import PastModels
from aggregator.engine.tickets import PresentDevice, Tally, Ticket
from testbed.common.statefile import pick, put
from testbed.history import trace
from testbed.wire.messages import CLUSTER_JOBS, Job, Train, Vector, first_ticket

Record = Callable[[trace.Event], None]


class TicketRegister:
    """Of one engine. ``book``: the first of its tickets are those of this book."""

    _KEPT = ("history", "open", "tally", "jobs", "_cluster_jobs", "_last")

    def __init__(self, model: Vector, record: Record, *, version: int = 0, ticket_range: int = 0) -> None:
        self._record = record
        self.history = PastModels(model, version)
        self.open: dict[int, Ticket] = {}
        self.tally = Tally()
        self.jobs: Counter[str] = Counter()
        """Jobs that each device has been sent so far, in all its lives."""
        self._cluster_jobs: Counter[str] = Counter()
        self._last = first_ticket(ticket_range)
        self.head_ledgers = HeadLedgers(record, self._count_job)
        """Of the cluster heads."""

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return pick(self, self._KEPT) | {"books": pick(self.head_ledgers, HeadLedgers.KEPT)}

    def restore(self, state: dict[str, Any]) -> None:
        put(self.head_ledgers, state.pop("books"))
        put(self, state)

    def issue(
        self,
        present: PresentDevice,
        job: Job | None,
        now: float,
        *,
        for_cluster: bool = False,
        grant: bool = False,
        baseline: int | None = None,
    ) -> Train:
        """A new ticket for a device that has none, on the current model."""
        device, version = present.info.name, self.history.version
        self._last = number = self._last + 1
        train = Train(
            ticket=number,
            number=CLUSTER_JOBS + self._cluster_jobs[device] if for_cluster else self.jobs[device],
            version=version,
            sent=now,
            job=job,
            model=self.history.model,
            for_cluster=for_cluster,
            grant=grant,
            baseline=baseline,
        )
        present.ticket = self.open[number] = Ticket(number=number, device=device, train=train, base=version)
        (self._cluster_jobs if for_cluster else self.jobs)[device] += job is not None
        self.history.hold(version)
        self.tally.dispatched += 1
        steps = 0 if job is None else job.steps_over(present.info.samples)
        self._record(
            trace.Dispatched(t=now, device=device, ticket=number, version=version, steps=steps, for_cluster=for_cluster)
        )
        return train

    def begin_range(self, now: float) -> None:
        """There are no clusters any more: the next tickets are larger than those of any head."""
        self._last = first_ticket(self.head_ledgers.close_all(now))

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

    def supersede(self, present: PresentDevice, now: float) -> None:
        """What the device is doing, if anything, is no longer wanted."""
        if present.ticket is not None:
            self.tally.superseded += 1
            self._record(trace.Superseded(t=now, device=present.info.name, ticket=present.ticket.number))
            self._settle(present.ticket, now)
            present.ticket = None

    def rebase(self, ticket: Ticket, version: int) -> None:
        """The download was lost, and the device went on with the model that it had."""
        self.history.hold(version)
        self.history.release(ticket.base)
        ticket.base = version

    def keep(self, present: PresentDevice, version: int) -> None:
        """The device has this model now, and may come back to it."""
        self.history.hold(version)
        if present.base_version is not None:
            self.history.release(present.base_version)
        present.base_version = version

    def _settle(self, ticket: Ticket, now: float, *, applied: bool = False) -> None:
        del self.open[ticket.number]
        self.history.release(ticket.base)
        if ticket.train.for_cluster:
            self.head_ledgers.settle(ticket.number, now, applied=applied)

    def _count_job(self, device: str) -> None:
        self.jobs[device] += 1
