"""A device as the head of a cluster: an endpoint of its own, and a small aggregator over the members.

Theory of operation (ADR 16)
    Engine: the head runs the same engine as the aggregator, over its members, with a strategy that makes no versions
    (``HeadStrategy``). Each model for the cluster arrives with one ticket of the aggregator. The engine dispatches it
    to the members with tickets of the head's own range. When the quorum of updates is there, they are merged into one
    result, which answers the aggregator's ticket and names the head's tickets in it (``Update.merged``).
    Start: the engine begins with the first model. Members that were heard before join it then, later ones at once.
    The head itself is a member; its jobs are handed over in the same process and go over no link.
    Presence: a member joins when it is heard, and leaves when the aggregator says so (``regroup``). The head does not
    judge heartbeats; it uses them only to see which tickets a member has.
    Carried jobs (ADR 28): a member may work on a job of its former head. Its ticket is taken over when the member
    joins, and its update counts like any other. One that arrives before the first model is kept until then.
    Time: an update arrives before it is due and counts from its due moment, or from the end of a suspension of this
    device if that is later. Updates that are due come before new messages.
    Accounts: what becomes of each ticket of the head's range is kept in ``unreported`` until the next *HeadReport*. The
    tickets in a result that never reaches the aggregator are reported as lost (``lose``); the aggregator records
    those in a result that it receives.
    This file has the endpoint and the moments; ``cluster_head.py`` has the engine. Only these two and
    ``head_engine.py`` import the aggregator's code.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from aggregator.engine.arrivals import Arrivals
from devices.cluster.cluster_head import ClusterHead
from devices.cluster.message_ends import HeadEnd
from testbed.profile.schema import UpdateBound
from testbed.wire.messages import ForDevice, Heartbeat, JoinCluster, Message, Train, Update
from testbed.wire.sockets import PeerUnreachable


class Head(ClusterHead):
    """``members``: the connections to them. ``give`` hands a job to the device itself. The rest: see ClusterHead."""

    def __init__(
        self,
        group: JoinCluster,
        members: HeadEnd,
        give: Callable[[Train], None],
        result: Callable[[Update, Train, float], None],
        bound: UpdateBound,
        compression: str,
    ) -> None:
        super().__init__(group, self._send, result, bound, compression)
        self._end, self._give = members, give
        self._heard: dict[str, int] = {}
        """Each member that has sent a message → Train messages that had reached it by then."""
        self._arrivals = Arrivals()
        self._early: set[int] = set()
        """Tickets whose updates are here and not due."""
        self._waiting: dict[int, tuple[Update, float]] = {}
        """Ticket → an update that arrived before the engine began, and when."""

    def close(self) -> None:
        self._end.close()

    # ---- from the aggregator

    def begin(self, train: Train, moment: float) -> None:
        """Let the cluster work on a model whose download ended at ``moment``. The head is the last to join."""
        self.receive_model(train, moment, self._heard | {self._group.head: 0})
        for update, received in self._waiting.values():
            self.take(update, received)
        self._waiting.clear()

    # ---- from members

    def listen(self, now: float, awake_since: float) -> None:
        """Handle the messages of members. What is due comes first."""
        while (incoming := self._end.receive()) is not None:
            self.advance(now, awake_since)
            self._hear(*incoming, now)
        self.advance(now, awake_since)

    def take(self, update: Update, now: float) -> None:
        """Accept the update of a member, or of the head itself."""
        engine = self.engine
        if engine is None and self._carried.get(update.device) == update.ticket:
            self._waiting[update.ticket] = update, now
        if update.ticket in self._early:
            return  # it is here already
        if engine is not None and update.ticket == engine.ticket_of(update.device):
            self._early.add(update.ticket)
            self._arrivals.add(update, now)
        elif engine is not None:
            engine.update(update, max(now, engine.now))

    def advance(self, now: float, awake_since: float) -> None:
        """Handle the updates that are due. One that was due in a suspension counts from the end of it."""
        while self.engine is not None and (arrival := self._arrivals.pop(now, math.inf)) is not None:
            update, received, counts_from = arrival
            assert isinstance(update, Update), "members ask for no rate"
            self._early.discard(update.ticket)
            moment = max(counts_from, awake_since, self.engine.now)
            self.engine.update(update, moment, received=received, handled=now)

    @property
    def due(self) -> float:
        """When :meth:`advance` is wanted."""
        return self._arrivals.next_due

    def _hear(self, peer: str, message: Message | None, now: float) -> None:
        if not isinstance(message, (Update, Heartbeat)) or message.device != peer or peer not in self._members:
            return
        self._heard[peer] = message.trains
        engine = self.engine
        if engine is None:
            if isinstance(message, Update):
                self.take(message, now)
            return
        moment = max(now, engine.now)
        if not engine.is_present(peer):
            self.join(peer, moment, message.trains)
        if isinstance(message, Update):
            self.take(message, now)
        elif engine.ticket_of(peer) not in self._early:
            # a heartbeat may show a state after ``now``: with the update not yet due, the upload would seem given up
            engine.heartbeat(message, moment)

    # ---- to members

    def _send(self, device: str, message: ForDevice) -> None:
        if device == self._group.head and isinstance(message, Train):
            self._give(message)
            return
        try:
            self._end.send(device, message)
        except PeerUnreachable as problem:
            raise ConnectionError(str(problem)) from None
