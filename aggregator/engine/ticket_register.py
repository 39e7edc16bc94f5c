"""Ticket accounting: gives tickets out, keeps the models that they are based on, and ends each exactly once.

A ticket ends as applied, rejected, lost, superseded or (the final model) delivered; until then it is in flight. A past
model is kept as long as an open ticket, or a device that may return to its old model, needs it. Only this file counts
and records the end of a ticket, so the tally equation (``Tally``) holds by construction (ADR 2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

from aggregator.engine.head_ledgers import HeadLedgers
from aggregator.engine.past_models import PastModels
from aggregator.engine.tickets import PresentDevice, Tally, Ticket
from aggregator.strategy import DeviceInfo
from testbed.common.files.statefile import SavedState, pick, put
from testbed.history import trace
from testbed.wire.messages import Train, Vector
from testbed.wire.ticket_ranges import CLUSTER_JOBS, first_ticket
from testbed.wire.training_job import Job

Record = Callable[[trace.Event], None]


class TicketRegister:
    """The accounts of all tickets that one engine gave out. The first ticket is the first one of ``ticket_range``."""

    _KEPT = ("past_models", "open", "tally", "jobs", "arrived", "_cluster_jobs", "_last")

    def __init__(self, model: Vector, record: Record, *, version: int = 0, ticket_range: int = 0) -> None:
        self._record = record
        self.past_models = PastModels(model, version)
        self.open: dict[int, Ticket] = {}
        self.tally = Tally()
        self.jobs: Counter[str] = Counter()
        """Device → jobs that it has been sent in this run, restarts included."""
        self.arrived: dict[str, int] = {}
        """Device → its last ticket whose update reached the strategy. Its next Train carries it."""
        self._cluster_jobs: Counter[str] = Counter()
        self._last = first_ticket(ticket_range)
        self.head_ledgers = HeadLedgers(record, self._count_job)
        """Accounts of the tickets that cluster heads gave out."""

    def state(self) -> SavedState:
        """Return what a checkpoint keeps."""
        return pick(self, self._KEPT) | {"head_ledgers": pick(self.head_ledgers, HeadLedgers.KEPT)}

    def restore(self, state: SavedState) -> None:
        """Continue from what ``state`` returned."""
        put(self.head_ledgers, state.pop("head_ledgers"))
        put(self, state)

    def issue(
        self,
        info: DeviceInfo,
        job: Job | None,
        now: float,
        *,
        for_cluster: bool = False,
        gradient: bool = False,
        grant: bool = False,
        baseline: int | None = None,
        kept: bool = False,
    ) -> Ticket:
        """Open a ticket for an idle device, based on the current model. ``gradient``: it trains nothing for it."""
        device, version = info.name, self.past_models.version
        jobs, first = (self._cluster_jobs, CLUSTER_JOBS) if for_cluster or gradient else (self.jobs, 0)
        self._last = number = self._last + 1
        train = Train(
            ticket=number,
            number=first + jobs[device],
            version=version,
            sent=now,
            job=job,
            model=self.past_models.model,
            for_cluster=for_cluster,
            grant=grant,
            baseline=baseline,
            arrived=self.arrived.get(device, 0),
            kept=kept,
        )
        ticket = self._open(Ticket(number=number, device=device, train=train, base=version, gradient=gradient))
        jobs[device] += job is not None
        self._record(
            trace.Dispatched(
                t=now,
                device=device,
                ticket=number,
                version=version,
                steps=0 if job is None or gradient else job.steps_over(info.samples),
                for_cluster=for_cluster,
                gradient=gradient,
            )
        )
        return ticket

    def take_over(self, info: DeviceInfo, number: int, job: Job) -> Ticket:
        """Open a ticket that a former cluster head gave out and recorded: its device continues it for this engine."""
        version, model = self.past_models.version, self.past_models.model
        train = Train(ticket=number, version=version, sent=0.0, job=job, model=model)
        return self._open(Ticket(number=number, device=info.name, train=train, base=version, carried=True))

    def _open(self, ticket: Ticket) -> Ticket:
        self.open[ticket.number] = ticket
        self.past_models.hold(ticket.base)
        self.tally.dispatched += 1
        return ticket

    def begin_range(self, now: float, *, carried_by: Collection[str] = ()) -> None:
        """End all clusters; the devices in ``carried_by`` carry their open tickets to their next heads.

        The next tickets are larger than those of any head.
        """
        self._last = first_ticket(self.head_ledgers.close_all(now, carried_by=carried_by))

    def apply(self, ticket: Ticket, now: float) -> None:
        """End a ticket whose update went into a version or a cluster's result. The caller records that event."""
        self.tally.applied += 1
        self._settle(ticket, now, applied=True)

    def reject(self, ticket: Ticket, reason: str, now: float) -> None:
        """End a ticket whose update will never be used."""
        self.tally.rejected += 1
        self._record(trace.Rejected(t=now, device=ticket.device, ticket=ticket.number, reason=reason))
        self._settle(ticket, now)

    def lose(self, ticket: Ticket, reason: str, now: float) -> None:
        """End a ticket whose update will not come."""
        self.tally.lost += 1
        self._record(trace.Lost(t=now, device=ticket.device, ticket=ticket.number, reason=reason))
        self._settle(ticket, now)

    def deliver(self, ticket: Ticket, now: float) -> None:
        """End the ticket of a final model that has reached its device."""
        self.tally.delivered += 1
        self._record(trace.Delivered(t=now, device=ticket.device, ticket=ticket.number))
        self._settle(ticket, now)

    def supersede(self, ticket: Ticket, now: float) -> None:
        """End a ticket whose result is no longer wanted."""
        self.tally.superseded += 1
        self._record(trace.Superseded(t=now, device=ticket.device, ticket=ticket.number))
        self._settle(ticket, now)

    def rebase(self, ticket: Ticket, version: int) -> None:
        """Note that the download was lost and the device trained on the older ``version`` that it had."""
        self.past_models.hold(version)
        self.past_models.release(ticket.base)
        ticket.base = version

    def keep(self, present: PresentDevice, version: int) -> None:
        """Keep the model of ``version`` for a device that may train on it again."""
        self.past_models.hold(version)
        if present.base_version is not None:
            self.past_models.release(present.base_version)
        present.base_version = version

    def _settle(self, ticket: Ticket, now: float, *, applied: bool = False) -> None:
        del self.open[ticket.number]
        self.past_models.release(ticket.base)
        if ticket.train.for_cluster:
            self.head_ledgers.settle(ticket.number, now, applied=applied)

    def _count_job(self, device: str) -> None:
        self.jobs[device] += 1
