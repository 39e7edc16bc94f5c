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
    Only this file and ``head_engine.py`` import the aggregator's code.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from aggregator.engine.arrivals import Arrivals
from aggregator.strategies.eafl.head_strategy import HeadStrategy
from aggregator.strategy import DeviceInfo, Merged
from devices.cluster.head_engine import ClusterEngine
from testbed.history import trace
from testbed.profile.schema import UpdateBound
from testbed.wire.codec import Buffer, decode_or_log, encode, largest_frame
from testbed.wire.error_feedback import ErrorFeedback
from testbed.wire.messages import ForDevice, Heartbeat, JoinCluster, Train, Update, Vector
from testbed.wire.sockets import Hub, PeerUnreachable

_LEFT = "it is no longer a member"


class Head:
    """``give`` hands a job to the device itself; ``result`` gets the cluster's result for the model of a Train.

    ``bound``: of the norm of each update. ``compression``: of the results, as in a profile; their residual is kept for
    as long as the device is head, apart from that of its own updates.
    """

    def __init__(
        self,
        group: JoinCluster,
        endpoint: str,
        size: int,
        give: Callable[[Train], None],
        result: Callable[[Update, Train, float], None],
        bound: UpdateBound,
        compression: str,
    ) -> None:
        self._group, self._size, self._give, self._result, self._bound = group, size, give, result, bound
        self._feedback = ErrorFeedback(compression)
        self._members: dict[str, int] = {}
        """Name → samples."""
        self._heard: dict[str, int] = {}
        """Each member that has sent a message → Train messages that had reached it by then."""
        self._engine: ClusterEngine | None = None
        self._train: Train | None = None
        """The last model for the cluster."""
        self._since = 0.0
        """When that model arrived."""
        self._arrivals = Arrivals()
        self._early: set[int] = set()
        """Tickets whose updates are here and not due."""
        self._arrived: dict[int, trace.Arrived] = {}
        """Updates that are in no result yet."""
        self._carried = dict(group.carried)
        """Member → the ticket of its former head that it works on, until the engine begins."""
        self._waiting: dict[int, tuple[Update, float]] = {}
        """Ticket → an update that arrived before the engine began, and when."""
        self._merged: dict[int, str] = {}
        """Ticket → device of each update in the last result."""
        self.unreported: list[trace.HeadEvent] = []
        """What became of tickets, for the next HeadReport."""
        self.hub = Hub(endpoint, max_bytes=largest_frame(size))
        self.regroup(group, 0.0)

    def close(self) -> None:
        self.hub.close(linger=0)

    # ---- from the aggregator

    def regroup(self, group: JoinCluster, now: float) -> None:
        """Set the members and the quorum."""
        self._group, self._members = group, {name: samples for name, samples, _ in group.members}
        engine = self._engine
        for name in [name for name in self._carried if name not in self._members]:
            self.drop_carried(name, _LEFT, now)
        if engine is None:
            return
        for name in [name for name in engine.devices if name not in self._members]:
            self._heard.pop(name, None)
            engine.leave(name, _LEFT, max(now, engine.now))
        engine.count_jobs({name: jobs for name, _, jobs in group.members})
        engine.set_quorum(group.quorum, now)

    def drop_carried(self, name: str, reason: str, now: float) -> None:
        """Report the ticket that a device carries as lost, unless the device has joined."""
        ticket = self._carried.pop(name, None)
        if ticket is not None and (self._engine is None or self._engine.forget_carried(name)):
            self._record(trace.Lost(t=now, device=name, ticket=ticket, reason=reason))

    def pause(self) -> None:
        """Merge nothing more until the next model: the aggregator clusters the devices and wants no result."""
        if self._engine is not None:
            self._engine.strategy.pause()

    def receive_model(self, train: Train, moment: float) -> None:
        """Let the cluster work on a model whose download ended at ``moment``."""
        self._train, self._since = train, moment
        self._feedback.begin(train.ticket, train.arrived)
        assert train.job is not None
        if self._engine is not None:
            self._engine.adopt(train.model, train.version, train.job, moment)
            return
        self._engine = ClusterEngine(
            HeadStrategy(self._group.quorum, self._group.damped),
            train.model,
            version=train.version,
            ticket_range=self._group.ticket_range,
            jobs={name: jobs for name, _, jobs in self._group.members},
            job=train.job,
            up=self._pass_up,
            send=self._send,
            record=self._record,
            carried=self._carried,
            bound=self._bound,
        )
        self._heard[self._group.head] = 0
        for name, trains in self._heard.items():
            if name in self._members:
                self._engine.join(self._info(name), moment, trains)
        self._engine.start(moment)
        for update, received in self._waiting.values():
            self.take(update, received)
        self._waiting.clear()

    # ---- from members

    def listen(self, now: float, awake_since: float) -> None:
        """Handle the messages of members. What is due comes first."""
        while (incoming := self.hub.receive(0)) is not None:
            self.advance(now, awake_since)
            self._hear(*incoming, now)
        self.advance(now, awake_since)

    def take(self, update: Update, now: float) -> None:
        """Accept the update of a member, or of the head itself."""
        engine = self._engine
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
        while self._engine is not None and (arrival := self._arrivals.pop(now, math.inf)) is not None:
            update, received, counts_from = arrival
            assert isinstance(update, Update), "members ask for no rate"
            self._early.discard(update.ticket)
            moment = max(counts_from, awake_since, self._engine.now)
            self._engine.update(update, moment, received=received, handled=now)

    @property
    def due(self) -> float:
        """When :meth:`advance` is wanted."""
        return self._arrivals.next_due

    def _hear(self, peer: str, frames: list[Buffer], now: float) -> None:
        message = decode_or_log(frames, self._size)
        if not isinstance(message, (Update, Heartbeat)) or message.device != peer or peer not in self._members:
            return
        self._heard[peer] = message.trains
        engine = self._engine
        if engine is None:
            if isinstance(message, Update):
                self.take(message, now)
            return
        moment = max(now, engine.now)
        if not engine.is_present(peer):
            engine.join(self._info(peer), moment, message.trains)
        if isinstance(message, Update):
            self.take(message, now)
        elif engine.ticket_of(peer) not in self._early:
            # a heartbeat may show a state after ``now``: with the update not yet due, the upload would seem given up
            engine.heartbeat(message, moment)

    def _info(self, name: str) -> DeviceInfo:
        return DeviceInfo(name=name, samples=self._members[name])

    # ---- to members and to the aggregator

    def lose(self, result: Update, reason: str, moment: float) -> None:
        """Report the updates in a result that will not reach the aggregator as lost."""
        for ticket, _, _ in result.merged:
            self._record(trace.Lost(t=moment, device=self._merged[ticket], ticket=ticket, reason=reason))

    def _send(self, device: str, message: ForDevice) -> None:
        if device == self._group.head and isinstance(message, Train):
            self._give(message)
            return
        try:
            self.hub.send(device, encode(message))
        except PeerUnreachable as problem:
            raise ConnectionError(str(problem)) from None

    def _record(self, event: trace.Event) -> None:
        if isinstance(event, trace.Arrived):
            self._arrived[event.ticket] = event
        if isinstance(event, trace.HeadEvent):
            self.unreported.append(event)

    def _pass_up(self, delta: Vector, merged: Merged) -> None:
        assert self._engine is not None
        assert self._train is not None
        arrived, moment = [self._arrived.pop(ticket) for ticket, _, _ in merged], self._engine.now
        self._merged = {each.ticket: each.device for each in arrived}
        losses = [each.loss for each in arrived if each.loss is not None]
        delta, payload = self._feedback.compress(self._train.ticket, delta)
        update = Update(
            device=self._group.head,
            ticket=self._train.ticket,
            version=self._train.version,
            delta=delta,
            payload=payload,
            samples=sum(self._engine.known[each.device].samples for each in arrived),
            steps=len(merged),
            started=self._since,
            finished=moment,
            due=moment,
            loss=sum(losses) / len(losses) if losses else None,
            merged=merged,
        )
        self._result(update, self._train, moment)
