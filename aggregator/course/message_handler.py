"""What each message means to a run: updates, heartbeats, scores, and devices that join and leave. No I/O, no clock.

Theory of operation
    ``Intake`` reads messages from sockets by the wall clock, and the twin of a run (``testbed.twin``) passes them on in
    memory by a virtual one; both call ``take`` with the moment of the message, after everything that was due by then
    (ADR 33). Before the run begins, messages only show which peers are there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from aggregator.connections.lost_devices import LostDevices
from aggregator.connections.scripted_deaths import ScriptedDeaths
from aggregator.course.due_events import DueEvents
from aggregator.course.ending import Ending
from aggregator.course.evaluation import EvaluationQueue
from aggregator.course.recorded_order import RecordedOrder
from aggregator.engine.arrivals import Arrivals
from aggregator.engine.engine import Engine
from aggregator.strategy import DeviceInfo
from testbed.common.clock import RunClock, WallClock
from testbed.common.files.statefile import SavedState, pick, put
from testbed.history import trace
from testbed.profile.fleet import DeviceSpec
from testbed.wire.codec import BadMessage
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

_LONGEST_LEAD_SECONDS = 1.0
"""Devices send updates a little before they are due. One that is due much later is not from a device of this run."""


class FleetPeers(Protocol):
    """The peers of a run, as far as their messages are concerned."""

    @property
    def fleet(self) -> Mapping[str, DeviceSpec]: ...
    @property
    def hellos(self) -> Mapping[str, Hello]:
        """Peer → the Hello of its present process."""
        ...

    def send(self, peer: str, message: Message) -> bool: ...
    def is_dead(self, name: str) -> bool: ...


class MessageHandler:
    """Passes messages on to the engine, the evaluation and the trace.

    ``lost``: finds lost devices. ``clock``: see ``begin``.
    """

    def __init__(
        self,
        peers: FleetPeers,
        engine: Engine,
        evaluation: EvaluationQueue,
        lost: LostDevices,
        deaths: ScriptedDeaths,
        ending: Ending,
        record: Callable[[trace.Event], None],
        arrivals: Arrivals | RecordedOrder,
    ) -> None:
        self._peers, self._engine, self._evaluation = peers, engine, evaluation
        self._ending, self._record, self._arrivals = ending, record, arrivals
        self.due = DueEvents(engine, arrivals, ending)
        self._deaths, self._lost_devices = deaths, lost
        self.running = False
        self.clock: RunClock = WallClock.starting_now()

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

    def begin(self, clock: RunClock) -> None:
        """Begin the run: from now on, ``clock`` shows its time."""
        self.clock, self.running = clock, True

    def start(self, header: trace.Header, now: float) -> None:
        """Record the header, let all devices join, and call the strategy."""
        self._record(header)
        for name in self._peers.fleet:
            self.join(self._peers.hellos[name], now)
        self._engine.start(now)

    # ---- messages

    def take(self, peer: str, message: Message, now: float) -> None:
        """Handle a message that is received at ``now``. Raises BadMessage if its sender may not send it."""
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
            self._engine.update(outdated, self.due.counts_from(now))
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
            self._engine.heartbeat(heartbeat, self.due.counts_from(now))

    def _take_result(self, message: Update | Ask, now: float) -> None:
        """Keep an update or a request of an open ticket until it is due. The engine ignores any other at once."""
        if message.ticket == self._engine.ticket_of(message.device):
            self._arrivals.add(message, now)
        elif isinstance(message, Ask):
            self._engine.ask(message, self.due.counts_from(now))
        else:
            self._engine.update(message, self.due.counts_from(now))

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
        self._engine.join(info, self.due.counts_from(now), trains)
        self.due.wake_at_once(now, self.clock)
        return not self._ending.over

    def _leave(self, device: str, reason: str, now: float) -> None:
        self._engine.leave(device, reason, self.due.counts_from(now))
        self.due.wake_at_once(now, self.clock)

    def resume(self, now: float) -> None:
        """Continue after a checkpoint: all devices have been started again, also those that had left before it."""
        for name in self._peers.fleet:
            if name in self._peers.hellos and self._engine.is_present(name):
                self._welcome(name, now)
        self._engine.resume(now)
        self.due.wake_at_once(now, self.clock)
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

    def drop_missing(self, now: float) -> None:
        """Let lost devices leave: see ``aggregator.connections.lost_devices``. All that is due by ``now`` is done."""
        self.record_kills(now)
        for device, reason in self._lost_devices.find(now, self.clock):
            if self._engine.is_present(device) and not self._ending.over:
                self._leave(device, reason, now)
