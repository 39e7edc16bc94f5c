"""Intake: passes messages of peers, and everything that falls due, to the engine in the order in which it counts.

Theory of operation
    Two sources: messages arrive on the socket at moments that the host decides, and updates, requests and the wake
    of the strategy fall due at moments that the emulation decides. A device sends an update a little before it is due
    (ADR 7), so that the transport's own delay is hidden; the update then waits in ``Arrivals`` until its moment.
    Catch-up comes before reading: before a message is read, everything that is due by now is handled. Otherwise a
    heartbeat could overtake the update that its device sent before it. The heartbeat would say that the ticket is
    finished while its update still waits here, and the engine would conclude that the upload was given up (ADR 3).
    For the same reason, a heartbeat is not passed on while the update of its ticket waits for its recorded arrival.
    Nothing overtakes a wake that is due: not even the second half of a message after which a device leaves and joins
    again, or the next of several lost devices. ``verify`` relies on that.
    Order: what was due first is handled first, and counts from its due moment however late the process is. At one
    moment, updates precede the wake. The ending is checked after each, so a run that ends at version V makes no other.
    Strict replay: ``RecordedOrder`` replaces ``Arrivals``. While a recorded update is missing, the run stands still at
    its moment, and what is received meanwhile counts from that moment (``counts_from``, ADR 13).
    Before the run begins, messages only show which peers are there. A checkpoint is taken between two messages, and
    updates that wait here are not part of it: their devices compute them again (ADR 19).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from aggregator.connections.limits import Limits
from aggregator.connections.lost_devices import LostDevices
from aggregator.connections.peers import Peers
from aggregator.connections.presence import PresenceTracker
from aggregator.connections.refusals import Refusals
from aggregator.connections.scripted_deaths import ScriptedDeaths
from aggregator.engine.arrivals import Arrivals
from aggregator.engine.engine import Engine
from aggregator.process.due_events import DueEvents
from aggregator.process.ending import Ending
from aggregator.process.evaluation import EvaluationQueue
from aggregator.process.load import LoadMeter
from aggregator.process.recorded_order import RecordedOrder
from aggregator.strategy import DeviceInfo
from testbed.common.clock import WallClock
from testbed.common.files.statefile import SavedState, pick, put
from testbed.history import trace
from testbed.host.kernel import UsageMeter, pressure_seconds
from testbed.wire.codec import BadMessage, Buffer, unexpected
from testbed.wire.connection_monitor import STRANGER
from testbed.wire.messages import (
    EVALUATOR,
    KILLED,
    Ask,
    CanaryReport,
    HeadReport,
    Heartbeat,
    Hello,
    Message,
    Score,
    Stop,
    Update,
    Welcome,
)

_FINE_SECONDS = 0.002
"""ZeroMQ waits in whole milliseconds. The last two of a wait are spent in a sleep until an absolute moment."""
_LONGEST_LEAD_SECONDS = 1.0
"""Devices send updates a little before they are due. One that is due much later is not from a device of this run."""


class Intake:
    """Waits for messages and for what falls due, and passes it on."""

    def __init__(
        self,
        peers: Peers,
        engine: Engine,
        evaluation: EvaluationQueue,
        presence: PresenceTracker,
        ending: Ending,
        record: Callable[[trace.Event], None],
        arrivals: Arrivals | RecordedOrder | None = None,
        *,
        message_limit: float = math.inf,
    ) -> None:
        """``message_limit``: messages per host second that are accepted from one peer."""
        self._peers, self._engine, self._evaluation = peers, engine, evaluation
        self._ending, self._record = ending, record
        self._arrivals = arrivals or Arrivals()
        self._due = DueEvents(engine, self._arrivals, ending)
        self._limits, self._refusals = Limits(peers.names, message_limit), Refusals(record)
        self._deaths = ScriptedDeaths(peers.fleet.values(), record)
        self._lost_devices = LostDevices(peers, presence, self._deaths)
        self._usage = UsageMeter()
        self.running = False
        self._count_from(WallClock.starting_now())

    def state(self) -> SavedState:
        """Return what a checkpoint keeps, the engine's state included."""
        return {
            "engine": self._engine.state(),
            "ending": pick(self._ending, Ending.KEPT),
            "deaths": pick(self._deaths, ScriptedDeaths.KEPT),
            "score": self._evaluation.latest,
            "arrivals": self._arrivals.consumed,
        }

    def restore(self, state: SavedState) -> None:
        """Continue from what ``state`` returned."""
        self._engine.restore(state["engine"])
        put(self._ending, state["ending"])
        put(self._deaths, state["deaths"])
        self._evaluation.restore(state["score"])
        self._arrivals.consumed = state["arrivals"]

    def begin(self, clock: WallClock) -> None:
        """Begin the run: from now on, ``clock`` shows its time."""
        self._count_from(clock)
        self.running = True

    def _count_from(self, clock: WallClock) -> None:
        self.clock = clock
        self.load = LoadMeter(self.host_now, self._usage, pressure_seconds)

    @property
    def host_now(self) -> float:
        """Host seconds since the origin of the clock."""
        return self.clock.host_seconds(self.clock.now())

    @property
    def moment(self) -> float:
        """Now, for events in the trace. Emulated time stands still before the run begins."""
        return self.clock.now() if self.running else self._engine.now

    # ---- what falls due

    @property
    def next_due(self) -> float:
        """Moment at which something falls due next."""
        return self._due.next_due

    def wait(self, until: float, now: float) -> float:
        """Wait for a message, but not beyond ``until``; then handle everything that is due.

        ``now`` is the present moment; return the one after that. So one reading of the clock serves several calls.
        """
        left = self.clock.host_seconds(until - now)
        if 0.0 < left <= _FINE_SECONDS:
            self.clock.sleep_until(until)
            self.load.waited(left)
            now, left = self.clock.now(), 0.0
        return self._catch_up(self._receive(max(0.0, left - _FINE_SECONDS / 2), now))

    def _catch_up(self, now: float) -> float:
        return self._due.catch_up(now, self.clock, self.load) if self.running else now

    # ---- messages

    def receive(self, timeout: float) -> None:
        """Take one message, waiting up to ``timeout`` host seconds for it. A bad message is refused."""
        self._receive(timeout, self.clock.now())

    def _receive(self, timeout: float, began: float) -> float:
        """Take one message; ``began`` is the present moment. Return the one after that."""
        clock = self.clock
        try:
            incoming = self._peers.receive(timeout)
        except BadMessage as problem:
            incoming = None
            self._refusals.add(STRANGER, str(problem), self.moment, self.host_now)
        now = clock.now()
        self.load.waited(clock.host_seconds(now - began))
        if incoming is None:
            return now
        peer, frames = incoming
        host_now = clock.host_seconds(now)
        if not self._limits.allow(peer, host_now):
            if self._refusals.add(peer, self._limits.reason, self.moment, host_now):
                self._peers.refuse(peer, self._limits.reason)
            return now
        now = self._catch_up(now)
        try:
            self._take(peer, self._read(peer, frames), now if self.running else self._engine.now)
        except (BadMessage, trace.TraceError) as problem:
            self._limits.charge(peer)
            self._refusals.add(peer, str(problem), self.moment, host_now)
            self._peers.refuse(peer, str(problem))
        return clock.now()  # what was taken may have led to a decision, which may have taken long

    def _read(self, peer: str, frames: list[Buffer]) -> Message:
        """Raises BadMessage, whatever goes wrong: reading changes no state, so no frame may end the run."""
        try:
            return self._peers.read(peer, frames)
        except BadMessage:
            raise
        except Exception as problem:
            raise BadMessage(unexpected(problem)) from problem

    def record_refusals(self, now: float, *, last: bool = False) -> None:
        """Record messages and connections that were refused; with ``last``, all that are left."""
        for (peer, reason), count in self._peers.rejected_connections().items():
            self._refusals.add(peer, reason, now, self.host_now, count)
        self._refusals.flush(now, self.host_now, last=last)

    def _take(self, peer: str, message: Message, now: float) -> None:
        if peer not in self._peers.fleet:
            if isinstance(message, CanaryReport):
                self._record(message.event)
            elif isinstance(message, Score):
                self._take_score(message, now)
            elif isinstance(message, Hello) and peer == EVALUATOR and self.running:
                self._ask_new_evaluator()
        elif not self.running:
            return
        elif isinstance(message, (Update, Ask, Heartbeat)):
            self._take_from_device(message, now)
        elif isinstance(message, HeadReport):
            self._engine.head_ledgers.enter(message.device, message.ticket_range, message.events)
        elif isinstance(message, Hello) and self._ending.over:
            self._peers.send(peer, Stop(reason=self._ending.reason or ""))
        elif isinstance(message, Hello):
            self._take_hello(message, now)

    def _take_hello(self, hello: Hello, now: float) -> None:
        """Let a new process of a device join. The one before it leaves first, which may end the run."""
        self._deaths.record_rejoin(hello.device, now)
        if self._engine.is_present(hello.device):
            self._leave(hello.device, "it was restarted", now)
        if self._ending.over:
            self._peers.send(hello.device, Stop(reason=self._ending.reason or ""))
        else:
            self.join(hello, now)

    def _take_from_device(self, message: Update | Ask | Heartbeat, now: float) -> None:
        device = message.device
        if not isinstance(message, Heartbeat):
            self._check_result(message, now)
        for event in message.events:
            self._record(event)
        if self._ending.over or (isinstance(message, Heartbeat) and message.state == KILLED):
            return
        if not self._lost_devices.has_ended(device):
            self._lost_devices.note_message(device, now)
            # one that was dropped for its silence is back; the ticket of what it sends has ended
            is_back = not self._engine.is_present(device)
            if is_back and not self.join(self._peers.hellos[device], now, message.trains):
                return
        outdated = self._arrivals.take_outdated(device, self._engine.ticket_of(device))
        if outdated is not None:
            self._engine.update(outdated, self._due.counts_from(now))
        if isinstance(message, Heartbeat):
            self._take_heartbeat(message, now)
        else:
            self._take_result(message, now)

    def _check_result(self, message: Update | Ask, now: float) -> None:
        """Raises BadMessage for an update or a request that no device of ours would send."""
        if isinstance(message, Ask) and not self._engine.grants:
            raise BadMessage("a request for a rate, but this strategy grants none")
        if self.clock.host_seconds(message.due - now) > _LONGEST_LEAD_SECONDS:
            kind = "an update" if isinstance(message, Update) else "a request"
            raise BadMessage(f"{kind} that is due long after it was sent")
        if self._arrivals.has(message):
            raise BadMessage(f"{type(message).__name__} of ticket {message.ticket}, which is here already")

    def _take_heartbeat(self, heartbeat: Heartbeat, now: float) -> None:
        if not self._arrivals.has_waiting(heartbeat.device, self._engine.ticket_of(heartbeat.device)):
            self._engine.heartbeat(heartbeat, self._due.counts_from(now))

    def _take_result(self, message: Update | Ask, now: float) -> None:
        """Keep an update or a request of an open ticket until it is due. The engine ignores any other at once."""
        if message.ticket == self._engine.ticket_of(message.device):
            self._arrivals.add(message, now)
        elif isinstance(message, Ask):
            self._engine.ask(message, self._due.counts_from(now))
        else:
            self._engine.update(message, self._due.counts_from(now))

    def _take_score(self, score: Score, now: float) -> None:
        if not self._evaluation.take(score):
            return
        self._record(trace.Scored(t=now, version=score.version, made=score.made, metrics=score.metrics))
        self._ending.check_score(score.metrics)

    def _ask_new_evaluator(self) -> None:
        """Send a restarted evaluator the version that the one before it has not scored."""
        owed = self._evaluation.owed
        if owed is not None:
            self._peers.send(EVALUATOR, owed)

    # ---- devices that join and leave

    def join(self, hello: Hello, now: float, trains: int | None = None) -> bool:
        """Let a device join: a new process, or one that was dropped and has received ``trains`` Train messages.

        Return whether the run goes on after that.
        """
        name, samples, spec = hello.device, hello.samples, self._peers.fleet[hello.device]
        self._record(
            trace.Joined(
                t=now,
                device=name,
                pid=hello.pid,
                cores=list(hello.cores),
                samples=samples,
                watts=spec.watts,
                compress_updates=spec.compress_updates,
            )
        )
        self._welcome(name, now)
        info = DeviceInfo(name=name, samples=samples, keeps_base=spec.on_lost_download == "old_base")
        self._engine.join(info, self._due.counts_from(now), trains)
        self._due.wake_at_once(now, self.clock)
        return not self._ending.over

    def _leave(self, device: str, reason: str, now: float) -> None:
        self._engine.leave(device, reason, self._due.counts_from(now))
        self._due.wake_at_once(now, self.clock)

    def resume(self, now: float) -> None:
        """Continue after a checkpoint: all devices have been started again, also those that had left before it."""
        for name in self._peers.fleet:
            if name in self._peers.hellos and self._engine.is_present(name):
                self._welcome(name, now)
        self._engine.resume(now)
        self._due.wake_at_once(now, self.clock)
        for name in self._peers.fleet:
            if name in self._peers.hellos and not self._engine.is_present(name):
                self._deaths.record_rejoin(name, now)
                self.join(self._peers.hellos[name], now)
            elif self._engine.is_present(name):
                self._lost_devices.note_message(name, now)  # one that the script had killed times out from now on

    def _welcome(self, name: str, now: float) -> None:
        self._lost_devices.watch(name, now)
        self._peers.send(name, Welcome(origin=self.clock.origin))

    def record_kills(self, now: float) -> None:
        """Record scripted kills that have happened. The strategy notices them only by the silence of the device."""
        self._deaths.record_kills(now, self._peers.is_dead)

    def drop_missing(self, now: float) -> float:
        """Let lost devices leave: see ``aggregator.connections.lost_devices``. Return the moment then."""
        now = self._catch_up(now)
        self.record_kills(now)
        for device, reason in self._lost_devices.find(now, self.clock):
            if self._engine.is_present(device) and not self._ending.over:
                self._leave(device, reason, now)
        return now
