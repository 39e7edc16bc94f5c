"""The engine: who is present, who is busy, and what is decided. It carries out what a strategy wants. No I/O.

Every Train carries a new ticket of its ``aggregator.engine.ticket_register``, which settles each exactly once. An Update whose ticket
is not open is ignored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from aggregator.engine.ticket_register import Record, TicketRegister
from aggregator.engine.tickets import PresentDevice, Ticket
from aggregator.engine.view import BadDecision, ServerView
from aggregator.strategy import Decision, DeviceInfo, Forecast, Strategy
from aggregator.strategy.vectors import is_finite
from testbed.history import trace
from testbed.history.events.run_events import UNREACHABLE
from testbed.wire.messages import Ask, Base, Grant, Heartbeat, Job, JoinCluster, Train, Update, Vector

_BEATS_BEHIND = 5
"""After so many heartbeats, a Train that has not arrived was lost by the transport: on one host it takes no time."""

Send = Callable[[str, Train | Base | Grant | JoinCluster], None]


class Stalled(RuntimeError):
    """A rule waits for something that cannot come: nobody is busy and it asked for no wake."""

    def __init__(self, strategy: str, event: str) -> None:
        super().__init__(f"{strategy} stalled after {event}: devices are present, none is busy, no wake is set")


class Engine(ServerView):
    """Feeds events to a strategy and acts on its decisions."""

    def __init__(
        self,
        strategy: Strategy,
        model: Vector,
        *,
        job: Job,
        random: np.random.Generator,
        send: Send,
        record: Record,
        forecast: Forecast | None = None,
        version: int = 0,
        ticket_range: int = 0,
        truth: Callable[[], Mapping[str, Hashable] | None] = lambda: None,
    ) -> None:
        """``truth``: what devices have in common that should be in one cluster, where that is known."""
        super().__init__(
            strategy,
            TicketRegister(_frozen(model), record, version=version, ticket_range=ticket_range),
            job,
            random,
            forecast,
        )
        self._send, self._record, self._truth = send, record, truth
        self._rounds = 0
        self._started = self._over = False
        self._gone: list[str] = []
        self._dropping = False

    # ---- going on

    def state(self) -> dict[str, Any]:
        return super().state() | {"_rounds": self._rounds}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._started = True

    def resume(self, now: float) -> None:
        """The devices that were present are there again, and have forgotten everything.

        Each is sent once more what it was working on: the same ticket, so the same job with the same batches and
        faults, and the rule need not know. Where part of a rule's state was on the devices, they have left, all at
        once, and join again.
        """
        if self._strategy.unrepeatable:
            self._drop_everyone("the run was interrupted", now)
            return
        self.now = now
        for device, present in self._present.items():
            present.trains_sent = present.beats_behind = present.beats_waiting = 0
            if present.base_version is not None:
                self._transmit(device, Base(version=present.base_version, model=self.model_at(present.base_version)))
            if present.ticket is not None:
                self._send_again(present, present.ticket)
        self._drop_unreachable()

    def _drop_everyone(self, reason: str, now: float) -> None:
        """The rule is told one by one, when nobody is there: what it wants of those whom it does not know to be gone
        yet is not done.
        """
        everyone, self._present, self.now = self._present, {}, now
        for device, present in everyone.items():
            self._clear(device, present, reason)
        for device in everyone:
            decision = self._strategy.on_leave(device, self)
            self._carry_out(replace(decision, train={}, orders=()), f"leave of {device}")

    # ---- events

    def start(self, now: float) -> None:
        self.now, self._started = now, True
        self._carry_out(self._strategy.on_start(self), "start")

    def join(self, info: DeviceInfo, now: float, trains: int = 0) -> None:
        """A device is there, and has had ``trains`` Train messages so far.

        One that was there already has been restarted: what it was doing is lost.
        """
        if info.name in self._present:
            self.leave(info.name, "it was restarted", now)
        self.now = now
        self.known[info.name] = info
        self._present[info.name] = PresentDevice(info=info, trains_sent=trains)
        if self._started:
            self._carry_out(self._strategy.on_join(info.name, self), f"join of {info.name}")
        elif self._over:
            self.dispatch(info.name, None)
            self._drop_unreachable()

    def leave(self, device: str, reason: str, now: float) -> None:
        self.now = now
        self._clear(device, self._present.pop(device), reason)
        if self._started:
            self._carry_out(self._strategy.on_leave(device, self), f"leave of {device}")

    def _clear(self, device: str, present: PresentDevice, reason: str) -> None:
        self._record(trace.Left(t=self.now, device=device, reason=reason))
        if present.ticket is not None:
            self._register.lose(present.ticket, reason, self.now)
        if present.base_version is not None:
            self._register.history.release(present.base_version)
        self.head_ledgers.close_of(device, self.now)

    def update(
        self, update: Update, now: float, *, received: float | None = None, handled: float | None = None
    ) -> None:
        """An update counts as arrived ``now``; ``received`` and ``handled`` are for the trace, where they differ."""
        self.now = now
        present = self._present.get(update.device)
        ticket = present.ticket if present is not None else None
        if present is None or ticket is None or ticket.number != update.ticket or ticket.train.job is None:
            self._record(trace.Ignored(t=now, device=update.device, ticket=update.ticket))
            self.head_ledgers.waste(update, now)
            return
        present.ticket = None
        if ticket.train.for_cluster:
            self.head_ledgers.bring(update)
        if update.version == present.base_version != ticket.base:
            self._register.rebase(ticket, update.version)
        problem = _unfit(update, ticket)
        if problem is not None:
            self._register.reject(ticket, problem, now)
            self._carry_out(self._strategy.on_ready(update.device, self), f"unfit update of {update.device}")
            return
        ticket.delivered = True
        self.forecast.heard(update)
        if present.info.keeps_base and present.base_version != ticket.base:
            self._register.keep(present, ticket.base)
        self._record(
            trace.Arrived(
                t=now,
                device=update.device,
                ticket=update.ticket,
                version=update.version,
                staleness=self.staleness(update),
                loss=update.loss,
                due=update.due,
                bytes=update.delta.nbytes,
                received=now if received is None else received,
                handled=now if handled is None else handled,
                started=update.started,
                finished=update.finished,
            )
        )
        self._carry_out(self._strategy.on_update(update, self), f"update of {update.device}")

    def ask(self, ask: Ask, now: float, *, received: float | None = None, handled: float | None = None) -> None:
        """A device has computed and waits for a grant; the moments are as in :meth:`update`."""
        self.now = now
        present = self._present.get(ask.device)
        ticket = present.ticket if present is not None else None
        if ticket is None or ticket.number != ask.ticket or not ticket.train.grant or ticket.asked:
            self._record(trace.Ignored(t=now, device=ask.device, ticket=ask.ticket))
            return
        ticket.asked = True
        self._record(
            trace.Asked(
                t=now,
                device=ask.device,
                ticket=ask.ticket,
                due=ask.due,
                received=now if received is None else received,
                handled=now if handled is None else handled,
            )
        )
        self._carry_out(self._strategy.on_ask(ask.device, self), f"request of {ask.device}")

    def beat(self, beat: Heartbeat, now: float) -> None:
        """Tells a lost download, to be sent again, from an upload that the device gave up."""
        self.now = now
        present = self._present.get(beat.device)
        if present is not None and beat.trains >= present.trains_sent:
            present.beats_behind = 0
        if present is None or present.ticket is None:
            return  # not present, or idle
        if beat.ticket == present.ticket.number:  # all is well, with the model at least
            self._note_progress(present, present.ticket, beat)
            return
        if beat.trains < present.trains_sent and present.beats_behind < _BEATS_BEHIND:
            present.beats_behind += 1  # a Train is still on its way, or the transport broke and has lost it
            return
        ticket, present.beats_behind = present.ticket, 0
        if beat.finished == ticket.number and ticket.train.job is None:
            present.ticket = None
            self._register.deliver(ticket, now)
        elif beat.finished == ticket.number:
            present.ticket = None
            self._register.lose(ticket, "its upload was given up", now)
            self._carry_out(self._strategy.on_ready(beat.device, self), f"upload given up by {beat.device}")
        else:
            present.trains_sent = beat.trains
            self._send_again(present, ticket)
            self._drop_unreachable()

    def _send_again(self, present: PresentDevice, ticket: Ticket) -> None:
        present.trains_sent += 1
        self._record(trace.Resent(t=self.now, device=ticket.device, ticket=ticket.number))
        ticket.train = replace(ticket.train, sent=self.now)
        self._transmit(ticket.device, ticket.train)

    def _note_progress(self, present: PresentDevice, ticket: Ticket, beat: Heartbeat) -> None:
        """A grant that does not arrive was lost by the transport, and is sent again as it was."""
        ticket.progress = self.now, beat.progress
        present.beats_waiting = present.beats_waiting + 1 if beat.state == "waiting" and ticket.granted else 0
        if ticket.granted and present.beats_waiting > _BEATS_BEHIND:
            present.beats_waiting = 0
            self._transmit(beat.device, ticket.granted)
            self._drop_unreachable()

    def wake(self, now: float) -> None:
        self.now = now
        self.wake_at, self.wakes = None, self.wakes + 1
        self._carry_out(self._strategy.on_wake(self), "wake")

    def broadcast_final(self, now: float) -> None:
        """The rule has made its last version: every device is sent it, to keep. Nothing more is asked of the rule."""
        self.now, self._started, self._over, self.wake_at = now, False, True, None
        for device in self._present:
            self.dispatch(device, None)
        self._drop_unreachable()

    @property
    def pending_final(self) -> int:
        """Devices that do not have the final model yet."""
        return sum(present.ticket is not None for present in self._present.values())

    # ---- acting

    def _carry_out(self, decision: Decision, event: str) -> None:
        if decision.model is not None:
            self._new_version(decision.model, decision.applied)
        elif decision.applied:
            raise BadDecision(f"{self._name} applied updates without a new model, after {event}")
        for number, reason in decision.rejected.items():
            self._register.reject(self._awaiting(number, "rejected"), reason, self.now)
        for order in decision.orders:
            order.before_dispatch(self)
        for device, job in decision.train.items():
            self.dispatch(device, job)
        for order in decision.orders:
            order.after_dispatch(self)
        if decision.wake_at is not None:
            self.wake_at = decision.wake_at
        if self._present and self.wake_at is None and not any(present.at_work for present in self._present.values()):
            raise Stalled(self._name, event)
        self._drop_unreachable()

    # ---- what orders do

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
        present.beats_waiting = 0
        ticket.granted = Grant(ticket=ticket.number, rate=rate, sent=self.now)
        self._record(trace.Granted(t=self.now, device=device, ticket=ticket.number, rate=rate, share=share))
        self._transmit(device, ticket.granted)

    def dissolve_clusters(self) -> None:
        self._register.begin_range(self.now)

    def join_cluster(self, cluster: int, head: str, members: Sequence[str], quorum: int, *, damped: bool) -> None:
        number = self.head_ledgers.open(cluster, head, members, self.now)
        self._record(
            trace.Grouped(
                t=self.now, cluster=cluster, ticket_range=number, head=head, members=list(members), quorum=quorum
            )
        )
        message = JoinCluster(ticket_range=number, head=head, quorum=quorum, damped=damped)
        details = tuple((name, self._present[name].info.samples, self.jobs_of(name)) for name in members)
        for name in members:
            present = self._present[name]
            if present.ticket is not None and not (present.ticket.train.for_cluster and name == head):
                # from now on it works for its head: what it did before is not awaited any more
                self._register.supersede(present, self.now)
            self._transmit(name, replace(message, members=details) if name == head else message)

    def pass_up(self, delta: Vector, weights: Mapping[int, float]) -> None:
        raise BadDecision(f"{self._name} passed a result up, but only a cluster head has an aggregator above it")

    def _drop_unreachable(self) -> None:
        """Tell the strategy of the devices that could not be reached; what it decides may find more of them."""
        if self._dropping:
            return  # the loop below is at work further up: nesting it would be as deep as the fleet is large
        self._dropping = True
        while self._gone:
            device = self._gone.pop()
            if device in self._present:
                self.leave(device, UNREACHABLE, self.now)
        self._dropping = False

    def _new_version(self, model: Vector, applied: Mapping[int, float]) -> None:
        register, previous = self._register, self.version
        if model.shape != self.model.shape or model.dtype != np.float32:
            raise BadDecision(f"{self._name} made a model of {model.dtype}{list(model.shape)}")
        # a rule may use an update again that was settled before, but none that has not come yet
        fresh = [self._awaiting(number, "applied") for number in applied if number in register.open]
        self._record(
            trace.Aggregated(
                t=self.now,
                version=previous + 1,
                tickets=list(applied),
                weights=[float(weight) if math.isfinite(weight) else None for weight in applied.values()],
                staleness=[previous - ticket.base for ticket in fresh],
            )
        )
        register.history.append(_frozen(model))
        self.made = self.now
        for ticket in fresh:
            register.apply(ticket, self.now)

    def dispatch(self, device: str, job: Job | None, *, for_cluster: bool = False) -> None:
        """Send the current model, with local work or (the final one) without."""
        present = self._present.get(device)
        if present is None:
            raise BadDecision(f"{self._name} dispatched to {device}, which is not present")
        steps = 0 if job is None else job.steps_over(present.info.samples)
        if job is not None and (steps < 1 or job.batch < 0):
            raise BadDecision(f"{self._name} dispatched a job of {steps} steps of {job.batch} samples to {device}")
        self._register.supersede(present, self.now)
        train = self._register.issue(
            present,
            job,
            self.now,
            for_cluster=for_cluster,
            grant=job is not None and self._strategy.grants,
            baseline=None if job is None else self._strategy.last_applied(device),
        )
        present.trains_sent += 1
        self._transmit(device, train)

    def _transmit(self, device: str, message: Train | Base | Grant | JoinCluster) -> None:
        try:
            self._send(device, message)
        except ConnectionError:
            self._gone.append(device)  # told to the strategy after the decision in hand is carried out

    def _awaiting(self, number: int, verdict: str) -> Ticket:
        ticket = self._register.open.get(number)
        if ticket is None or not ticket.delivered:
            raise BadDecision(f"{self._name} {verdict} ticket {number}, which awaits no decision")
        return ticket


def _unfit(update: Update, ticket: Ticket) -> str | None:
    if ticket.train.grant and ticket.granted is None:
        return "it was sent without a grant"
    if update.version != ticket.base:
        return f"it claims version {update.version}, but its ticket is for {ticket.base}"
    if update.delta.shape != ticket.train.model.shape:
        return "its delta has another shape than the model"
    if update.samples < 1:
        return "it was trained on no samples"
    if not is_finite(update.delta):
        return "its delta is not finite"
    return None


def _frozen(model: Vector) -> Vector:
    """Models are shared with frames on their way out: nobody may write to them again."""
    model.flags.writeable = False
    return model
