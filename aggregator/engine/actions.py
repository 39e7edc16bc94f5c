"""What the engine can do on behalf of a strategy: send models, grants and clusters, and record rounds.

These are the ``EngineActions`` that orders may use. A device that cannot be reached is only noted here: the engine
drops it after it has carried out the decision in hand.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import ClassVar

import numpy as np
from msgspec.structs import replace

from aggregator.engine.failures import BadDecision
from aggregator.engine.ticket_register import Record, TicketRegister
from aggregator.engine.tickets import PresentDevice, Ticket
from aggregator.engine.view import ServerView
from aggregator.strategy import Forecast, Merged, Strategy
from testbed.history import trace
from testbed.wire.messages import ForDevice, Grant, JoinCluster, Vector
from testbed.wire.training_job import Job

Send = Callable[[str, ForDevice], None]
"""Sends a message to a device. Raises ConnectionError if it cannot be reached."""
Truth = Callable[[], Mapping[str, Hashable] | None]
"""Returns device → the cluster it should be in, or None where the data does not show it."""


class Actions(ServerView):
    """The state of an engine, and the actions that change it."""

    _KEPT: ClassVar[tuple[str, ...]] = (*ServerView._KEPT, "_rounds")

    def __init__(
        self,
        strategy: Strategy,
        register: TicketRegister,
        job: Job,
        random: np.random.Generator,
        forecast: Forecast | None,
        *,
        send: Send,
        record: Record,
        truth: Truth,
    ) -> None:
        super().__init__(strategy, register, job, random, forecast)
        self._send, self._record, self._truth = send, record, truth
        self._rounds = 0
        self._unreachable: list[str] = []
        """Devices to be dropped after the decision in hand."""

    @property
    def true_groups(self) -> Mapping[str, Hashable] | None:
        return self._truth()

    def record(self, event: trace.Event) -> None:
        self._record(event)

    def end_round(self, executions: Sequence[tuple[str, float]]) -> None:
        self._rounds += 1
        devices, seconds = [device for device, _ in executions], [seconds for _, seconds in executions]
        self._record(trace.Round(t=self.now, number=self._rounds, devices=devices, seconds=seconds))

    def grant(self, device: str, rate: float, share: float) -> None:
        present = self._present.get(device)
        ticket = present.ticket if present is not None else None
        if present is None or ticket is None or not ticket.train.grant or ticket.granted is not None:
            raise BadDecision(f"{self._name} granted a rate to {device}, which does not wait for one")
        present.heartbeats_waiting = 0
        ticket.granted = Grant(ticket=ticket.number, rate=rate, sent=self.now)
        self._present.note_grant(present)
        self._record(trace.Granted(t=self.now, device=device, ticket=ticket.number, rate=rate, share=share))
        self._transmit(device, ticket.granted)

    def dissolve_clusters(self, *, carry: bool = False) -> None:
        self._register.begin_range(self.now, carried_by=self._present if carry else ())

    def join_cluster(self, cluster: int, head: str, members: Sequence[str], quorum: int, *, damped: bool) -> None:
        number = self.head_ledgers.open(cluster, head, members, self.now)
        self._record(
            trace.Grouped(
                t=self.now, cluster=cluster, ticket_range=number, head=head, members=list(members), quorum=quorum
            )
        )
        message = JoinCluster(ticket_range=number, head=head, quorum=quorum, damped=damped, sent=self.now)
        details = tuple((name, self._present[name].info.samples, self.jobs_of(name)) for name in members)
        carried = self.head_ledgers.carried_in(cluster)
        for name in members:
            present = self._present[name]
            if present.ticket is not None and not (present.ticket.train.for_cluster and name == head):
                # from now on the device works for its head; the result of its present job is not awaited
                self._supersede(present)
            if name == head:
                self._transmit(name, replace(message, members=details, carried=carried))
            else:
                self._transmit(name, replace(message, carried=tuple(job for job in carried if job[0] == name)))

    def pass_up(self, delta: Vector, merged: Merged) -> None:
        raise BadDecision(f"{self._name} passed a result up, but only a cluster head has an aggregator above it")

    def dispatch(self, device: str, job: Job | None, *, for_cluster: bool = False, gradient: bool = False) -> None:
        """Send the current model with a job, or (the final model) without one. A busy device is restarted.

        ``gradient``: ask for the last update that the device has instead; nothing is restarted.
        Raises BadDecision if the device is not present or the job has no steps.
        """
        present = self._present.get(device)
        if present is None:
            raise BadDecision(f"{self._name} dispatched to {device}, which is not present")
        steps = 0 if job is None else job.steps_over(present.info.samples)
        if job is not None and (steps < 1 or job.batch < 0):
            raise BadDecision(f"{self._name} dispatched a job of {steps} steps of {job.batch} samples to {device}")
        self._supersede(present)
        ticket = self._register.issue(
            present.info,
            job,
            self.now,
            for_cluster=for_cluster,
            gradient=gradient,
            grant=job is not None and self._strategy.grants,
            baseline=None if job is None else self._strategy.last_applied(device),
            kept=job is not None and self._strategy.keeps_updates,
        )
        self._present.assign(present, ticket)
        present.trains_sent += 1
        present.heartbeats_behind = 0
        self._transmit(device, ticket.message)

    def _supersede(self, present: PresentDevice) -> None:
        """End the ticket of a device, if it has one."""
        if present.ticket is not None:
            self._register.supersede(present.ticket, self.now)
            self._present.release(present)

    def _resend(self, present: PresentDevice, ticket: Ticket) -> None:
        """Send the Train of an open ticket again: the same job with the same batches and faults."""
        present.trains_sent += 1
        self._record(trace.Resent(t=self.now, device=ticket.device, ticket=ticket.number))
        ticket.train = replace(ticket.train, sent=self.now)
        self._transmit(ticket.device, ticket.message)

    def _transmit(self, device: str, message: ForDevice) -> None:
        try:
            self._send(device, message)
        except ConnectionError:
            self._unreachable.append(device)
