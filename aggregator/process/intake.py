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
    A checkpoint is taken between two messages, and updates that wait here are not part of it: their devices compute
    them again (ADR 19). What a message means is in ``message_handler``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from aggregator.connections.limits import Limits
from aggregator.connections.peers import Peers
from aggregator.connections.refusals import Refusals
from aggregator.course.load import LoadMeter
from aggregator.course.message_handler import MessageHandler
from aggregator.engine.engine import Engine
from testbed.common.clock import WallClock
from testbed.history import trace
from testbed.host.kernel import UsageMeter, pressure_seconds
from testbed.wire.codec import BadMessage, Buffer, unexpected
from testbed.wire.connection_monitor import STRANGER
from testbed.wire.messages import Message

_FINE_SECONDS = 0.002
"""ZeroMQ waits in whole milliseconds. The last two of a wait are spent in a sleep until an absolute moment."""


class Intake:
    """Waits for messages and for what falls due, and passes it on to ``handler``."""

    def __init__(
        self,
        peers: Peers,
        engine: Engine,
        handler: MessageHandler,
        record: Callable[[trace.Event], None],
        *,
        message_limit: float = math.inf,
    ) -> None:
        """``message_limit``: messages per host second that are accepted from one peer."""
        self._peers, self._engine, self._handler = peers, engine, handler
        self._limits, self._refusals = Limits(peers.names, message_limit), Refusals(record)
        self._usage = UsageMeter()
        self._count_from(WallClock.starting_now())

    def begin(self, clock: WallClock) -> None:
        """Begin the run: from now on, ``clock`` shows its time."""
        self._count_from(clock)
        self._handler.begin(clock)

    def _count_from(self, clock: WallClock) -> None:
        self.clock = clock
        self.load = LoadMeter(self.host_now, self._usage, pressure_seconds)

    @property
    def running(self) -> bool:
        """Whether the run has begun."""
        return self._handler.running

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
        return self._handler.due.next_due

    def wait(self, until: float, now: float) -> float:
        """Wait for a message, but not beyond ``until``; then handle everything that is due.

        ``now`` is the present moment; return the one after that. So one reading of the clock serves several calls.
        """
        left = self.clock.host_seconds(until - now)
        if 0.0 < left <= _FINE_SECONDS:
            self.clock.sleep_until(until)
            self.load.waited(left)
            now, left = self.clock.now(), 0.0
        return self.catch_up(self._receive(max(0.0, left - _FINE_SECONDS / 2), now))

    def catch_up(self, now: float) -> float:
        """Handle everything that is due by ``now``, and return the moment after that."""
        return self._handler.due.catch_up(now, self.clock, self.load) if self.running else now

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
        now = self.catch_up(now)
        try:
            self._handler.take(peer, self._read(peer, frames), now if self.running else self._engine.now)
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
