"""Feeds the events of a recorded run to a real engine, and compares everything that the engine records.

Theory of operation
    The engine is deterministic: the same calls in the same order lead to the same events. A call appends its events to
    the trace one after another, so each call is a block of lines. The first line of a block shows which call it was:
    *arrived* an update, *left* a leave, *resent* a heartbeat after a lost download, and so on. Everything else was
    caused by the wake that the strategy asked for. The call is repeated with the recorded moment, and every event that
    it records must be the next line.
    Wakes leave no line of their own. One is due before the event in hand by the order of ``aggregator.process.intake``:
    before an update that is due or was received later, and before anything else that happened at its moment or later.
    The last event of the trace has the number of all wakes, so that none happens after the end of the run.
    Devices that could not be reached are known in advance (``trace_outline``): sending to them fails again.
    A resumed run continues with a new engine that has the state of the old one, as after a checkpoint (ADR 19).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from aggregator.strategy import DeviceInfo
from testbed.common.errors import UserError
from testbed.history import trace
from testbed.history.events.ticket_events import UPLOAD_GIVEN_UP
from testbed.verification.event_matching import EventMatching, departure
from testbed.verification.final_files import digest
from testbed.verification.recorded_devices import NoJob, RecordedDevices, UpdateMoments
from testbed.verification.recorded_heads import RecordedHeads
from testbed.verification.recorded_poison import PoisonDiffers
from testbed.verification.repeated_messages import RunsBackwards, check_order, heartbeat, ignored_update
from testbed.verification.run_parts import RunParts
from testbed.verification.trace_cursor import TraceCursor
from testbed.verification.trace_outline import TraceOutline
from testbed.verification.verification_result import DepartureFound
from testbed.wire.messages import Ask, ForDevice, JoinCluster, SendGradient, Train, Update


class RecordedAggregator:
    """Repeats the calls of the engine of one run."""

    def __init__(
        self,
        parts: RunParts,
        cursor: TraceCursor,
        outline: TraceOutline,
        devices: RecordedDevices,
        matching: EventMatching,
    ) -> None:
        assert outline.header is not None
        assert outline.stopped is not None
        self._parts, self._cursor, self._outline = parts, cursor, outline
        self._devices, self._matching = devices, matching
        self._is_strict, self._wakes = outline.header.replay == "strict", outline.stopped.wakes
        self._samples = {spec.name: len(parts.task.shards[spec.index]) for spec in parts.devices}
        self._pids: dict[str, int] = {}
        self._joined = 0
        self._explained = True
        """Whether the event in hand was recorded by a call that is repeated, or is the input of one."""
        self.engine, self._strategy = parts.engine(self._send, self._record)
        self._compression = {spec.name: spec.compress_updates for spec in parts.devices}
        self._heads = RecordedHeads(devices, outline, parts.experiment.aggregator, self._compression)

    def take(self, event: trace.Event) -> None:
        """Take the event in hand. Raises DepartureFound if it, or what follows from it, is not as recorded."""
        line = self._cursor.line
        if isinstance(event, trace.DeviceEvent):
            with self._as_departures(event, line):
                self._devices.note(event)
            return
        self._explained = False
        with self._as_departures(event, line):
            self._repeat(event)
        if not self._explained:
            raise departure(event, line, expected="no such event: nothing before it leads to it")

    @contextlib.contextmanager
    def _as_departures(self, event: trace.Event, line: int) -> Iterator[None]:
        """Convert errors of the engine and of the strategy, which may be a user's: recorded events lead to none."""
        try:
            yield
        except NoJob as problem:
            raise departure(event, line, expected=str(problem), found="none") from None
        except (PoisonDiffers, RunsBackwards) as problem:
            raise departure(event, line, expected=problem.expected, found=problem.found) from None
        except (DepartureFound, UserError):
            raise
        except Exception as problem:
            text = f"one that fails with {type(problem).__name__}: {problem}"
            raise departure(event, line, expected="an event that the engine accepts", found=text) from problem

    def _repeat(self, event: trace.Event) -> None:
        """Repeat the call that recorded the event in hand."""
        match event:
            case trace.Joined():
                self._join(event)
            case trace.Resumed():
                self._resume(event)
            case trace.Stopped():
                self._stop(event)
            case _ if self._heads.reported(event, self.engine.head_ledgers):
                self._heads.take(event, self.engine.head_ledgers, lambda: self._explained)
            case trace.Arrived() | trace.Asked():
                self._take_message(event)
            case _ if self._is_broadcast(event):
                self._wake_while(lambda: True)
                self.engine.broadcast_final(event.t)
            case _:
                self._wake_while(lambda: self._is_wake_before(event.t))
                if not self._explained:
                    check_order(event, self.engine.now)
                    self._take_other(event)

    # ---- what the engine does

    def _record(self, expected: trace.Event) -> None:
        """Compare an event of the engine with the event in hand, or else with the next one."""
        found = self._cursor.advance() if self._explained else self._cursor.event
        self._explained = True
        self._matching.check(expected, found, self._cursor.line)

    def _send(self, device: str, message: ForDevice) -> None:
        now = self.engine.now
        if isinstance(message, JoinCluster):
            self._heads.receive_group(device, message)
        elif isinstance(message, Train) and message.for_cluster:
            self._heads.receive_model(device, message)
        else:
            self._devices.receive(device, message)
        has_ticket = isinstance(message, Train | SendGradient)
        failed = self._outline.unsent if has_ticket else self._outline.unreachable
        if ((message.ticket if isinstance(message, Train | SendGradient) else device), now) in failed:
            raise ConnectionError(device)

    # ---- wakes

    def _wake_while(self, is_due: Callable[[], bool]) -> None:
        """Wake the strategy as often as it was woken before the event in hand."""
        engine = self.engine
        while engine.wake_at is not None and engine.wakes < self._wakes and is_due():
            engine.wake(max(engine.wake_at, engine.now))
            if self._explained:
                return

    def _is_wake_before(self, moment: float) -> bool:
        """Whether the wake precedes something that happened at ``moment`` and was not scheduled."""
        wake_at = math.inf if self.engine.wake_at is None else self.engine.wake_at
        if self._is_strict and wake_at == moment:
            return wake_at < self._next_arrival()
        return wake_at <= moment

    def _is_wake_before_message(self, event: trace.Arrived | trace.Asked) -> bool:
        """Whether the wake precedes an update or a request: it does if that is due later, or was received too late.

        On a virtual clock, an update is received when it is due, and precedes a wake of that moment.
        """
        wake_at = math.inf if self.engine.wake_at is None else self.engine.wake_at
        if self._is_strict:
            return wake_at < event.t
        return wake_at < event.due or (wake_at <= event.received and event.due < event.received)

    def _next_arrival(self) -> float:
        """Moment of the next update in the trace: a strict replay stands still there."""
        return next((event.t for event in self._cursor.ahead() if isinstance(event, trace.Arrived)), math.inf)

    # ---- calls

    def _join(self, event: trace.Joined) -> None:
        name, moment = event.device, event.t
        if self._is_strict and self._joined >= len(self._samples):
            moment = min(moment, self._next_arrival())
        self._wake_while(lambda: self._is_wake_before(moment))
        expected = replace(event, samples=self._samples[name], compress_updates=self._compression[name])
        self._matching.check(expected, event, self._cursor.line)
        self._explained = True
        is_new = self._pids.get(name) != event.pid
        if is_new:
            self._devices.restart(name)
        self._pids[name] = event.pid
        info = DeviceInfo(name=name, samples=event.samples, keeps_base=name in self._parts.keeps_base)
        self.engine.join(info, moment, None if is_new else 0)
        self._joined += 1
        if self._joined == len(self._samples):
            self.engine.start(0.0)

    def _resume(self, event: trace.Resumed) -> None:
        self._explained = True
        state = self.engine.state()
        self.engine, self._strategy = self._parts.engine(self._send, self._record)
        self.engine.restore(state)
        self._matching.check(replace(event, version=self.engine.version), event, self._cursor.line)
        self._pids.clear()
        for name in self._samples:
            self._devices.restart(name)
        self.engine.resume(event.t)

    def _stop(self, event: trace.Stopped) -> None:
        self._wake_while(lambda: True)
        engine, self._explained = self.engine, True
        expected = replace(
            event,
            version=engine.version,
            in_flight=engine.in_flight + engine.head_ledgers.in_flight,
            wakes=engine.wakes,
            model=digest(engine.model) if self._matching.exact else event.model,
        )
        self._matching.check(expected, event, self._cursor.line)

    def _take_message(self, event: trace.Arrived | trace.Asked) -> None:
        """Repeat an update or a request for a grant, each with its recorded moments."""
        self._wake_while(lambda: self._is_wake_before_message(event))
        if self._explained:
            return
        check_order(event, self.engine.now)
        moments = {"received": event.received, "handled": event.handled}
        if isinstance(event, trace.Asked):
            ask = Ask(device=event.device, ticket=event.ticket, due=event.due)
            self.engine.ask(ask, event.t, **moments)
            return
        self.engine.update(replace(self._update(event), due=event.due), event.t, **moments)

    def _update(self, event: trace.Arrived | trace.Rejected) -> Update:
        """Return the update of an event: the result of a head, a gradient for a clustering, or that of a job."""
        device, ticket, moments = event.device, event.ticket, UpdateMoments.of(event)
        if self._devices.has_signal(device, ticket):
            nbytes = event.bytes if isinstance(event, trace.Arrived) else None
            return self._devices.gradient(device, moments, nbytes, self.engine.head_ledgers.head_of_range)
        return self._heads.result(device, ticket) or self._devices.update(device, ticket, moments)

    def _take_other(self, event: trace.Event) -> None:
        match event:
            case trace.Left():
                self.engine.leave(event.device, event.reason, event.t)
            case trace.Ignored() if self.engine.ticket_of(event.device) != event.ticket:
                # of the result of a head, it matters what was merged in it
                update = self._heads.result(event.device, event.ticket) or ignored_update(event)
                self.engine.update(update, event.t)
            case trace.Rejected() if self.engine.ticket_of(event.device) == event.ticket:
                self.engine.update(self._update(event), event.t)
            case trace.Resent():
                self._heartbeat(event)
            case trace.Delivered():
                self._heartbeat(event, finished=event.ticket)
            case trace.Lost() if event.reason == UPLOAD_GIVEN_UP:
                self._heartbeat(event, finished=event.ticket)
            case trace.Progressed():
                self._heartbeat(event, ticket=event.ticket, progress=event.progress)
            case _:
                pass

    def _heartbeat(
        self, event: trace.TicketEvent, *, ticket: int = 0, finished: int = 0, progress: float = 0.0
    ) -> None:
        """Repeat the heartbeat that led to an event, by what it must have said."""
        trains = self.engine.trains_sent_to(event.device)
        message = heartbeat(event, trains, ticket=ticket, finished=finished, progress=progress)
        self.engine.heartbeat(message, event.t)

    def _is_broadcast(self, event: trace.Event) -> bool:
        """Whether the final model is sent to all devices here. A busy device's ticket is superseded first."""
        if not self._strategy.broadcasts_final_model:
            return False
        if isinstance(event, trace.Superseded):
            following = next(self._cursor.ahead(), None)
            return isinstance(following, trace.Dispatched) and following.steps == 0
        return isinstance(event, trace.Dispatched) and event.steps == 0
