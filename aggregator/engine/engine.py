"""The engine: calls the strategy at every event and carries out its decisions. No I/O.

Theory of operation
    Now: the engine reads no clock. Each event comes with its moment, and ``now`` is the moment of the event in hand. An
    update counts from the moment at which it was due, or received if that was later, and not from the moment at which
    the process handled it. All messages that the decision causes are sent at this ``now``. So the time that the
    aggregator computes is hidden behind the emulated delay of its answer (ADR 7); a strict replay may pass the recorded
    moments (ADR 13).
    Order of acting: a new version is made first and its tickets are applied; then updates are rejected, orders act,
    models are dispatched, orders act again, and the wake is set. Devices that could not be reached are dropped
    after that, one by one, because each of them leads to a further decision.
    Tickets: each Train has a new ticket, which ends exactly once. Decisions name tickets and not devices (ADR 2): one
    device may have several updates in a version, and an update may be rejected long after it arrived. An update whose
    ticket is not the open one of its device is ignored. Heartbeats count Train messages, so a lost download is
    distinguished from one that is on its way (ADR 3, ``heartbeats.py``).
    After a checkpoint, each open ticket is sent again; the strategy does not notice (ADR 19).
    ``validate`` checks the accounts between two events (``engine_invariants.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import numpy as np
from msgspec.structs import replace

from aggregator.engine import engine_invariants, heartbeats
from aggregator.engine.actions import Actions, Send, Truth
from aggregator.engine.failures import BadDecision, ModelNotFinite, Stalled
from aggregator.engine.heartbeats import Finding
from aggregator.engine.model_range import ModelRange
from aggregator.engine.ticket_register import Record, TicketRegister
from aggregator.engine.tickets import PresentDevice, Ticket
from aggregator.engine.update_checks import NOT_FINITE, excess, problem_of, scaled_down
from aggregator.strategy import Decision, DeviceInfo, Forecast, Strategy
from aggregator.strategy.vectors import sum_of_squares
from testbed.common.files.statefile import SavedState
from testbed.history import trace
from testbed.history.events.run_events import UNREACHABLE
from testbed.history.events.ticket_events import UPLOAD_GIVEN_UP
from testbed.profile.schema import UpdateBound
from testbed.wire.messages import Ask, Base, Heartbeat, TrainsSent, Update, Vector
from testbed.wire.training_job import Job

NoteCall = Callable[[str], None]
"""Called with the event before each call of the strategy, and with an empty text after it."""
_FLOAT32 = np.dtype(np.float32)
NO_BOUND = UpdateBound()
_OUT_OF_RANGE = f"{NOT_FINITE}: the model that it was trained on is out of range"


class Engine(Actions):
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
        truth: Truth = lambda: None,
        bound: UpdateBound = NO_BOUND,
        note_call: NoteCall = lambda event: None,
    ) -> None:
        register = TicketRegister(_frozen(model), record, version=version, ticket_range=ticket_range)
        super().__init__(strategy, register, job, random, forecast, send=send, record=record, truth=truth)
        self.model_range, self._bound, self._note_call = ModelRange(model), bound, note_call
        self._started = self._over = False
        self._dropping = False
        self._trains_sent: dict[str, int] = {}
        """Device that has left → Trains that were sent to its process. No checkpoint has it: all processes are new."""

    def validate(self) -> None:
        """Check the accounts. Raises InvariantBroken, which names what is wrong. Call it between two events."""
        engine_invariants.check(self._register, self._present)

    # ---- resuming from a checkpoint

    def state(self) -> SavedState:
        return super().state() | {"model_range": self.model_range.state()}

    def restore(self, state: SavedState) -> None:
        self.model_range.restore(state.pop("model_range"))
        super().restore(state)
        self._started = True

    def resume(self, now: float) -> None:
        """Continue with the devices that were present at the checkpoint. They have lost their jobs and models.

        Each device is sent its open ticket again, so it does the same job with the same batches and faults, and the
        strategy is not involved. If part of a strategy's state was on the devices, all devices leave at once instead
        and join again.
        """
        if self._strategy.unrepeatable:
            self._drop_all("the run was interrupted", now)
            return
        self.now = now
        for device, present in self._present.items():
            present.trains_sent = present.heartbeats_behind = present.heartbeats_waiting = 0
            if present.base_version is not None:
                self._transmit(device, Base(version=present.base_version, model=self.model_at(present.base_version)))
            if present.ticket is not None:
                self._resend(present, present.ticket)
        self._drop_unreachable()

    def _drop_all(self, reason: str, now: float) -> None:
        """Remove all devices, then report each to the strategy. Nothing is dispatched in its answers: a device that
        the strategy still believes to be present has gone as well.
        """
        self.now = now
        gone = list(self._present)
        for device in gone:
            self._clear(device, self._present.remove(device), reason)
        for device in gone:
            event = f"leave of {device}"
            decision = self._ask_strategy(event, self._strategy.on_leave, device)
            self._carry_out(replace(decision, train={}, orders=()), event)

    # ---- events

    def start(self, now: float) -> None:
        """Begin the run with the devices that have joined."""
        self.now, self._started = now, True
        self._consult("start", self._strategy.on_start)

    def join(self, info: DeviceInfo, now: float, trains: int | None = None) -> None:
        """Add a device: a new process (``trains`` is None), or one that was dropped, and has received so many Trains.

        A device that was present already has been restarted: its ticket is lost. Trains that were sent to a process
        before it was dropped may be on their way: the count goes on from them (ADR 25).
        """
        if info.name in self._present:
            self.leave(info.name, "it was restarted", now)
        self.now = now
        self.known[info.name] = info
        sent = self._trains_sent.pop(info.name, 0)
        self._present.add(self._presence(info, 0 if trains is None else max(trains, sent)))
        if trains is not None and trains < sent:  # they arrive before this number, or never
            self._transmit(info.name, TrainsSent(trains=sent))
        if self._started:
            self._consult(f"join of {info.name}", self._strategy.on_join, info.name)
        elif self._over:
            self.dispatch(info.name, None)
            self._drop_unreachable()

    def _presence(self, info: DeviceInfo, trains_sent: int) -> PresentDevice:
        """Return the state of a device that joins."""
        return PresentDevice(info=info, trains_sent=trains_sent)

    def leave(self, device: str, reason: str, now: float) -> None:
        """Remove a device. Its ticket is lost."""
        self.now = now
        self._clear(device, self._present.remove(device), reason)
        if self._started:
            self._consult(f"leave of {device}", self._strategy.on_leave, device)

    def _clear(self, device: str, present: PresentDevice, reason: str) -> None:
        self._record(trace.Left(t=self.now, device=device, reason=reason))
        self._trains_sent[device] = present.trains_sent
        if present.ticket is not None:
            self._register.lose(present.ticket, reason, self.now)
        if present.base_version is not None:
            self._register.past_models.release(present.base_version)
        self.head_ledgers.close_of(device, self.now)

    def update(
        self, update: Update, now: float, *, received: float | None = None, handled: float | None = None
    ) -> None:
        """Take an update that counts from ``now``. ``received`` and ``handled`` go into the trace if they differ."""
        self.now = now
        present = self._present.get(update.device)
        ticket = present.ticket if present is not None else None
        if present is None or ticket is None or ticket.number != update.ticket or ticket.train.job is None:
            self._record(trace.Ignored(t=now, device=update.device, ticket=update.ticket))
            self.head_ledgers.lose_merged(update, now)
            return
        self._present.release(present)
        if ticket.train.for_cluster:
            self.head_ledgers.bring(update)
        if update.version == present.base_version != ticket.base:
            self._register.rebase(ticket, update.version)
        square = sum_of_squares(update.delta)
        problem = problem_of(update, ticket, square, self._bound)
        if problem is not None:
            if problem == NOT_FINITE and self.model_range.is_out(self.model_at(ticket.base)):
                problem = _OUT_OF_RANGE
            self._register.reject(ticket, problem, now)
            self._consult(f"unfit update of {update.device}", self._strategy.on_ready, update.device)
            return
        ticket.arrived = True
        self._register.arrived[update.device] = ticket.number
        clipped = excess(square, self._bound)
        if clipped is not None and self._bound.clip is not None:
            update, square = scaled_down(update, clipped, self._bound.clip), self._bound.clip**2
        self.model_range.note(update, square, self.version)
        self.forecast.observe(update)
        if present.info.keeps_base and present.base_version != ticket.base:
            self._register.keep(present, ticket.base)
        handled = now if handled is None else handled
        self._record_arrival(update, now if received is None else received, handled, clipped)
        self._consult(f"update of {update.device}", self._strategy.on_update, update)

    def _record_arrival(self, update: Update, received: float, handled: float, clipped: float | None) -> None:
        self._record(
            trace.Arrived(
                t=self.now,
                device=update.device,
                ticket=update.ticket,
                version=update.version,
                staleness=self.staleness(update),
                loss=update.loss,
                due=update.due,
                bytes=update.nbytes,
                received=received,
                handled=handled,
                started=update.started,
                finished=update.finished,
                clipped=clipped,
            )
        )

    def ask(self, ask: Ask, now: float, *, received: float | None = None, handled: float | None = None) -> None:
        """Take a request for a grant from a device that has finished computing; moments as in :meth:`update`."""
        self.now = now
        present = self._present.get(ask.device)
        ticket = present.ticket if present is not None else None
        wanted = ticket is not None and ticket.number == ask.ticket and ticket.train.grant and not ticket.asked
        if present is None or ticket is None or not wanted:
            self._record(trace.Ignored(t=now, device=ask.device, ticket=ask.ticket))
            return
        ticket.asked = True
        self._present.note_grant(present)
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
        self._consult(f"request of {ask.device}", self._strategy.on_ask, ask.device)

    def heartbeat(self, heartbeat: Heartbeat, now: float) -> None:
        """Resend what was lost on the way to a device, and end a ticket that the device reports as finished."""
        self.now = now
        device, present = heartbeat.device, self._present.get(heartbeat.device)
        if present is None:
            return
        finding, ticket = heartbeats.judge(present, heartbeat, now), present.ticket
        if ticket is not None and ticket.number == heartbeat.ticket and self._strategy.uses_progress:
            progress = heartbeat.progress
            self._record(trace.Progressed(t=now, device=device, ticket=ticket.number, progress=progress))
        if ticket is None or finding is Finding.NOTHING:
            return
        if finding is Finding.TRAIN_MISSING:
            self._transmit(device, TrainsSent(trains=present.trains_sent))
        elif finding is Finding.DOWNLOAD_LOST:
            self._resend(present, ticket)
        elif finding is Finding.GRANT_LOST and ticket.granted is not None:
            self._transmit(device, ticket.granted)
        elif finding is Finding.FINAL_MODEL_ARRIVED:
            self._present.release(present)
            self._register.deliver(ticket, now)
        elif finding is Finding.UPLOAD_GIVEN_UP:
            self._present.release(present)
            self._register.lose(ticket, UPLOAD_GIVEN_UP, now)
            self._consult(f"upload given up by {device}", self._strategy.on_ready, device)
        self._drop_unreachable()

    def wake(self, now: float) -> None:
        """Call the strategy at the moment that it asked for."""
        self.now = now
        self.wake_at, self.wakes = None, self.wakes + 1
        self._consult("wake", self._strategy.on_wake)

    def broadcast_final(self, now: float) -> None:
        """Send the last version to every device. The strategy is not called any more."""
        self.now, self._started, self._over, self.wake_at = now, False, True, None
        for device in self._present:
            self.dispatch(device, None)
        self._drop_unreachable()

    @property
    def pending_final(self) -> int:
        """Number of present devices that do not have the final model yet."""
        return len(self._present.busy)

    # ---- carrying out a decision

    def _consult(self, event: str, handler: Callable[..., Decision], *about: str | Update) -> None:
        """Call a handler of the strategy and carry out its decision."""
        self._carry_out(self._ask_strategy(event, handler, *about), event)

    def _ask_strategy(self, event: str, handler: Callable[..., object], *about: str | Update) -> Decision:
        """Return the decision of a handler. An exception gets a note that says what it was called for."""
        occasion = f"{event}, version {self.version}"
        self._note_call(occasion)
        try:
            decision = handler(*about, self)
        except BaseException as error:
            error.add_note(occasion)
            raise
        finally:
            self._note_call("")
        if not isinstance(decision, Decision):
            answer = f"{self._name}.{handler.__name__} returned {decision!r:.80}"
            raise BadDecision(f"{answer} and no Decision, after {event}")
        return decision

    def _carry_out(self, decision: Decision, event: str) -> None:
        if decision.model is not None:
            self._new_version(decision.model, decision.applied)
        elif decision.applied:
            raise BadDecision(f"{self._name} applied updates without a new model, after {event}")
        for order in decision.orders:
            order.after_version(self)
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
        if self.wake_at is None and self._present and not self._present.at_work:
            raise Stalled(self._name, event)
        if self._unreachable:
            self._drop_unreachable()

    def _drop_unreachable(self) -> None:
        """Remove the devices that could not be reached. The strategy's answers may lead to more of them."""
        if self._dropping:
            return  # a loop further up the stack does it: nested loops would be as deep as the fleet is large
        self._dropping = True
        while self._unreachable:
            device = self._unreachable.pop()
            if device in self._present:
                self.leave(device, UNREACHABLE, self.now)
        self._dropping = False

    def _new_version(self, model: Vector, applied: Mapping[int, float]) -> None:
        register, previous = self._register, self.version
        shape = register.past_models.model.shape
        if model.shape != shape or model.dtype != _FLOAT32:
            made = f"{self._name} made a model of {model.dtype}{list(model.shape)}"
            raise BadDecision(f"{made}; float32{list(shape)} is wanted: return a vector like server.model")
        # a strategy may use an update again whose ticket has ended, but none that has not arrived
        fresh = [self._awaiting(number, "applied") for number in applied if number in register.open]
        self.model_range.measure(model)
        if not self.model_range.is_finite:
            self._give_up_model(model, applied, fresh)
        self._record(
            trace.Aggregated(
                t=self.now,
                version=previous + 1,
                tickets=list(applied),
                weights=[float(weight) if math.isfinite(weight) else None for weight in applied.values()],
                staleness=[previous - ticket.base for ticket in fresh],
            )
        )
        register.past_models.append(_frozen(model))
        self.made = self.now
        for ticket in fresh:
            register.apply(ticket, self.now)

    def _give_up_model(self, model: Vector, applied: Mapping[int, float], fresh: Sequence[Ticket]) -> NoReturn:
        """End the run. The version is not made: what was recorded, and the model before it, are kept."""
        version, devices = self.version + 1, {ticket.number: ticket.device for ticket in fresh}
        found = self.model_range.check(version, self.now)
        if found is not None:
            self._record(found)
        raise ModelNotFinite(self._name, version, model, {number: devices.get(number, "") for number in applied})

    def _awaiting(self, number: int, verdict: str) -> Ticket:
        """Return an open ticket whose update has arrived. Raises BadDecision if there is none of this number."""
        ticket = self._register.open.get(number)
        if ticket is None or not ticket.arrived:
            raise BadDecision(f"{self._name} {verdict} ticket {number}, which awaits no decision")
        return ticket


def _frozen(model: Vector) -> Vector:
    """Make a model read-only: messages that are being sent share its memory."""
    model.setflags(write=False)
    return model
