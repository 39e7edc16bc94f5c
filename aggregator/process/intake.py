"""What peers say and what falls due, told to the engine in the order in which it counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from aggregator.engine.arrivals import Arrivals
from aggregator.engine.engine import Engine
from aggregator.process.ending import Ending
from aggregator.process.evaluation import EvaluationQueue
from aggregator.process.limits import Limits
from aggregator.process.load import LoadMeter
from aggregator.process.peers import Events, Peers
from aggregator.process.presence import LOOK_SECONDS, LivenessProbe, PresenceTracker
from aggregator.process.recorded_order import RecordedOrder
from aggregator.process.refusals import Refusals
from aggregator.process.scripted_deaths import ScriptedDeaths
from aggregator.strategy import DeviceInfo
from testbed.common.clock import WallClock
from testbed.common.statefile import pick, put
from testbed.history import trace
from testbed.history.events.run_events import PROCESS_ENDED
from testbed.host.kernel import ExitWatch, UsageMeter, is_computing, pressure_seconds
from testbed.wire.codec import BadMessage
from testbed.wire.messages import (
    EVALUATOR,
    KILLED,
    Ask,
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
"""ZeroMQ waits in whole milliseconds. The last two of a wait are slept, to an absolute moment."""
_LONGEST_LEAD_SECONDS = 1.0
"""Devices send updates a little before they are due; what is due much later than now is not from a device of ours."""


class Intake:
    """Waits, and takes what comes. Until the run begins, it only notes who is there."""

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
        rate: float = math.inf,
    ) -> None:
        """``rate``: messages that are taken of a peer per host second."""
        self._peers, self._engine, self._evaluation = peers, engine, evaluation
        self._presence, self._ending, self._record = presence, ending, record
        self._arrivals = arrivals or Arrivals()
        self._limits, self._refusals = Limits(peers.names, rate), Refusals(record)
        self._deaths = ScriptedDeaths(peers.fleet.values(), record)
        self._suspects, self._watch = LivenessProbe(), ExitWatch()
        self._ended: set[str] = set()
        """Devices whose process is known to have ended."""
        self._usage = UsageMeter()
        self.running = False
        self._count_from(WallClock.starting_now())

    def state(self) -> dict[str, Any]:
        """For a checkpoint, the engine's included. What is here and not due will be made once more."""
        return {
            "engine": self._engine.state(),
            "ending": pick(self._ending, Ending.KEPT),
            "deaths": pick(self._deaths, ScriptedDeaths.KEPT),
            "score": self._evaluation.latest,
            "turns": self._arrivals.consumed,
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._engine.restore(state["engine"])
        put(self._ending, state["ending"])
        put(self._deaths, state["deaths"])
        self._evaluation.restore(state["score"])
        self._arrivals.consumed = state["turns"]

    def begin(self, clock: WallClock) -> None:
        """From now on, time is that of the run."""
        self._count_from(clock)
        self.running = True

    def _count_from(self, clock: WallClock) -> None:
        self.clock = clock
        self.load = LoadMeter(self.host_now, self._usage, pressure_seconds)

    @property
    def host_now(self) -> float:
        return self.clock.host_seconds(self.clock.now())

    @property
    def moment(self) -> float:
        """Now, as the trace counts: nothing passes before the run has begun."""
        return self.clock.now() if self.running else self._engine.now

    def _counting(self, now: float) -> float:
        """The moment from which what is heard now counts: a strict replay may stand still, until it is over."""
        return now if self._ending.reason is not None else self._arrivals.until(now)

    # ---- what falls due

    @property
    def next_due(self) -> float:
        """When the next update is due, or the wake that the rule asked for, unless that waits for an update."""
        wake_at = self._wake_at
        return min(self._arrivals.next_due, wake_at if self._arrivals.allows_wake(wake_at) else math.inf)

    @property
    def _wake_at(self) -> float:
        return math.inf if self._engine.wake_at is None else self._engine.wake_at

    def wait(self, until: float) -> None:
        """Take one message, or all that falls due at ``until``, whichever comes first."""
        left = self.clock.host_seconds(until - self.clock.now())
        if 0.0 < left <= _FINE_SECONDS:
            self.clock.sleep_until(until)
            self.load.waited(left)
            left = 0.0
        self.receive(max(0.0, left - _FINE_SECONDS / 2))
        self._catch_up()

    def _catch_up(self) -> None:
        self._look_for_the_end()
        while self.running and self._ending.reason is None and self._take_up_next(self.clock.now()):
            self._look_for_the_end()

    def _look_for_the_end(self) -> None:
        if not self.running:
            return
        engine, arrivals = self._engine, self._arrivals
        self._ending.look_at_version(engine.version)
        self._ending.look_at_jobs(engine.jobs_of)
        turn = arrivals.turn
        if arrivals.is_over(engine.wakes, self._wake_at):
            self._ending.ask("the recording is over")
        elif turn is not None and engine.ticket_of(turn.device) != turn.ticket and self._wake_at >= turn.t:
            # nothing comes before this turn any more, and nobody is at work for it
            came_off = "has gone" if not engine.is_present(turn.device) else "was not asked for what was recorded"
            self._ending.ask(f"{turn.device} {came_off}, and it is its turn")

    def _take_up_next(self, now: float) -> bool:
        """Of all that is due by now, what was due first: an update, or the wake after the updates of its moment.

        (A rule with ticks makes its tick before it takes such an update: its intervals are half-open.)
        """
        engine, wake_at = self._engine, self._wake_at
        arrival = self._arrivals.pop(now, wake_at)
        if arrival is not None:
            self._take_up(*arrival)
        elif wake_at <= now and self._arrivals.allows_wake(wake_at):
            began = self.clock.now()
            engine.wake(max(wake_at, engine.now))
            self.load.served(self.clock.host_seconds(self.clock.now() - began), updates=0)
            # a rule may ask for the same moment again; one that always does must not keep the run from ending
            self._ending.look_at_time(now)
        else:
            return False
        return True

    def _take_up(self, update: Update | Ask, received: float, counts_from: float) -> None:
        """The emulated uplink has delivered an update: the rule decides, at the moment at which it was due.

        What the updates before it took us is hidden behind the delay of the answer, as long as that is longer.
        """
        handled, moment = self.clock.now(), max(counts_from, self._engine.now)
        if isinstance(update, Ask):
            self._engine.ask(update, moment, received=received, handled=handled)
        else:
            self._engine.update(update, moment, received=received, handled=handled)
        self.load.served(self.clock.host_seconds(self.clock.now() - handled), updates=isinstance(update, Update))

    # ---- what peers say

    def receive(self, timeout: float) -> None:
        """Take one message, waiting up to ``timeout`` host seconds for it."""
        began = self.host_now
        incoming = self._peers.receive(timeout)
        heard = self.host_now
        self.load.waited(heard - began)
        if incoming is None:
            return
        peer, frames = incoming
        if not self._limits.allow(peer, heard):
            if self._refusals.add(peer, self._limits.reason, self.moment, heard):
                self._peers.refuse(peer, self._limits.reason)
            return
        # what a device says now must not overtake its update: it would tell of a job that was given up
        self._catch_up()
        try:
            message, events = self._peers.read(peer, frames)
            self._take(peer, message, events)
        except (BadMessage, trace.TraceError) as problem:
            self._limits.charge(peer)
            self._refusals.add(peer, str(problem), self.moment, heard)
            self._peers.refuse(peer, str(problem))

    def tell_refusals(self, now: float, *, last: bool = False) -> None:
        """What was refused since, for the trace: messages, and connections."""
        for (peer, reason), count in self._peers.rejected_connections().items():
            self._refusals.add(peer, reason, now, self.host_now, count)
        self._refusals.tell(now, self.host_now, last=last)

    def _take(self, peer: str, message: Message, events: Events) -> None:
        now = self.moment
        if peer not in self._peers.fleet:
            self._note(events)
            if isinstance(message, Score):
                self._take_score(message, now)
            elif isinstance(message, Hello) and peer == EVALUATOR and self.running:
                self._ask_again()
        elif isinstance(message, (Update, Ask, Heartbeat)):
            if self.running:
                self._take_from_device(message, events, now)
        elif isinstance(message, HeadReport):
            if self.running:
                self._engine.head_ledgers.enter(message.device, message.ticket_range, message.events)
        elif isinstance(message, Hello) and self.running and self._ending.over:
            self._peers.send(peer, Stop(reason=self._ending.reason or ""))  # it comes too late
        elif isinstance(message, Hello) and self.running:
            self._deaths.rejoined(peer, now)
            if self._engine.is_present(peer):
                self._engine.leave(peer, "it was restarted", self._counting(now))
            self.join(message, now)

    def _take_from_device(self, message: Update | Ask | Heartbeat, events: Events, now: float) -> None:
        if isinstance(message, Ask) and not self._engine.grants:
            raise BadMessage("a request for a rate, and this rule grants none")
        if not isinstance(message, Heartbeat) and self.clock.host_seconds(message.due - now) > _LONGEST_LEAD_SECONDS:
            kind = "an update" if isinstance(message, Update) else "a request"
            raise BadMessage(f"{kind} that is due long after it was sent")
        if not isinstance(message, Heartbeat) and self._arrivals.has(message):
            raise BadMessage(f"{type(message).__name__} of ticket {message.ticket}, which is here already")
        self._note(events)
        if self._ending.over or (isinstance(message, Heartbeat) and message.state == KILLED):
            return
        if message.device not in self._ended:  # or it is the last that a dead process had sent
            self._presence.heard(message.device, now)
            self._suspects.heard(message.device)
            if not self._engine.is_present(message.device):
                # it had been silent for too long and is back; what it brings belongs to a ticket that is settled
                self.join(self._peers.hellos[message.device], now, message.trains)
        late = self._arrivals.settled(message.device, self._engine.ticket_of(message.device))
        if late is not None:
            self._engine.update(late, self._counting(now))
        if not isinstance(message, Heartbeat):
            if message.ticket == self._engine.ticket_of(message.device):
                self._arrivals.add(message, now)
            elif isinstance(message, Ask):
                self._engine.ask(message, self._counting(now))
            else:
                self._engine.update(message, self._counting(now))
        elif not self._arrivals.holds(message.device, self._engine.ticket_of(message.device)):
            # (else it would seem to have given its upload up)
            self._engine.beat(message, self._counting(now))

    def _take_score(self, score: Score, now: float) -> None:
        if not self._evaluation.take(score):
            return
        self._record(trace.Scored(t=now, version=score.version, made=score.made, metrics=score.metrics))
        self._ending.look_at_score(score.metrics)

    def _ask_again(self) -> None:
        """There is a new evaluator, for one that died: what that owed is asked of this one."""
        owed = self._evaluation.again()
        if owed is not None:
            self._peers.send(EVALUATOR, owed)

    def _note(self, events: Events) -> None:
        for event in events:
            self._record(event)

    # ---- who is present

    def join(self, hello: Hello, now: float, trains: int = 0) -> None:
        name, samples, spec = hello.device, hello.samples, self._peers.fleet[hello.device]
        self._record(
            trace.Joined(t=now, device=name, pid=hello.pid, cores=list(hello.cores), samples=samples, watts=spec.watts)
        )
        self._greet(name, now)
        info = DeviceInfo(name=name, samples=samples, keeps_base=spec.on_lost_download == "old_base")
        self._engine.join(info, self._counting(now), trains)

    def resume(self, now: float) -> None:
        """Everybody who was present has been started again; and so has whoever had left before."""
        for name in self._peers.fleet:
            if name in self._peers.hellos and self._engine.is_present(name):
                self._greet(name, now)
        self._engine.resume(now)
        for name in self._peers.fleet:
            if name in self._peers.hellos and not self._engine.is_present(name):
                self._deaths.rejoined(name, now)
                self.join(self._peers.hellos[name], now)
            elif self._engine.is_present(name):
                self._presence.heard(name, now)  # or it will be missed: the script had killed it

    def _greet(self, name: str, now: float) -> None:
        self._presence.heard(name, now)
        self._suspects.heard(name)
        self._ended.discard(name)
        self._watch.watch(name, self._peers.hellos[name].pid)
        self._peers.send(name, Welcome(origin=self.clock.origin))

    def note_deaths(self, now: float) -> None:
        """For the trace: the rule learns of a death by silence, as it would of any other."""
        self._deaths.look(now, self._peers.is_dead)

    def drop_missing(self, now: float) -> None:
        """Whose process has ended, and who has been silent for too long."""
        self.note_deaths(now)
        for device in self._watch.ended():
            if not self._deaths.wanted(device, now):  # of a phone that fell into the water, nobody is told at once
                self._ended.add(device)
                self._let_go(device, PROCESS_ENDED, now)
        for device in self._presence.silent(now):
            if not self._is_excused(device, now):
                self._let_go(device, "it was silent for too long", now)

    def _is_excused(self, device: str, now: float) -> bool:
        """One local step may take longer than the time-out."""
        hello = self._peers.hellos.get(device)
        if hello is None or self._peers.has_left(device) or not is_computing(hello.pid):
            return False
        computes = self._suspects.computes(device, hello.pid, self.host_now)
        if computes is None:
            self._presence.recheck_in(device, now, LOOK_SECONDS / self.clock.dilation)
        elif computes:
            self._presence.heard(device, now)
        return computes is not False

    def _let_go(self, device: str, reason: str, now: float) -> None:
        if self._engine.is_present(device):
            self._engine.leave(device, reason, self._counting(now))
