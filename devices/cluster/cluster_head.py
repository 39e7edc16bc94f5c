"""A cluster head without its endpoint: the engine over its members, and what becomes of their updates. No I/O.

``Head`` adds the endpoint and the moments at which messages count (ADR 16). ``testbed.verification`` feeds recorded
events to this class (ADR 29), so everything that its engine is fed must be in the trace: a join, an update and a lost
transfer cause events of tickets; *Adopted*, *Carried*, *Regrouped* and *Paused* report the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aggregator.engine.actions import Send
from aggregator.strategies.eafl.head_strategy import HeadStrategy
from aggregator.strategy import DeviceInfo, Merged
from devices.cluster.head_engine import ClusterEngine
from testbed.history import trace
from testbed.profile.schema import UpdateBound
from testbed.wire.error_feedback import ErrorFeedback
from testbed.wire.messages import JoinCluster, Train, Update, Vector

_LEFT = "it is no longer a member"


class ClusterHead:
    """``send`` sends a message to a member; ``result`` gets the cluster's result for the model of a Train.

    ``bound``: of the norm of each update. ``compression``: of the results, as in a profile; their residual is kept for
    as long as the device is head, apart from that of its own updates.
    """

    def __init__(
        self,
        group: JoinCluster,
        send: Send,
        result: Callable[[Update, Train, float], None],
        bound: UpdateBound,
        compression: str,
    ) -> None:
        self._send_to, self._result, self._bound = send, result, bound
        self._feedback = ErrorFeedback(compression)
        self._set_members(group)
        self._carried = dict(group.carried)
        """Member → the ticket of its former head that it works on, unless that is lost."""
        self.engine: ClusterEngine | None = None
        """None before the first model."""
        self._train: Train | None = None
        """The last model for the cluster."""
        self._since = 0.0
        """When that model arrived."""
        self._arrived: dict[int, trace.Arrived] = {}
        """Updates that are in no result yet."""
        self._merged: dict[int, str] = {}
        """Ticket → device of each update in the last result."""
        self.unreported: list[trace.HeadEvent] = []
        """What became of tickets, for the next HeadReport."""

    def _set_members(self, group: JoinCluster) -> None:
        self._group, self._members = group, {name: samples for name, samples, _ in group.members}

    # ---- from the aggregator

    def regroup(self, group: JoinCluster, now: float) -> None:
        """Set the members and the quorum."""
        self._set_members(group)
        engine = self.engine
        moment = now if engine is None else max(now, engine.now)
        self._record(trace.Regrouped(t=moment, device=group.head, ticket_range=group.ticket_range))
        for name in [name for name in self._carried if name not in self._members]:
            self.drop_carried(name, _LEFT, now)
        if engine is None:
            return
        for name in [name for name in engine.devices if name not in self._members]:
            engine.leave(name, _LEFT, moment)
        engine.count_jobs({name: jobs for name, _, jobs in group.members})
        engine.set_quorum(group.quorum, moment)

    def drop_carried(self, name: str, reason: str, now: float) -> None:
        """Report the ticket that a device carries as lost, unless the device has joined."""
        ticket = self._carried.pop(name, None)
        if ticket is not None and (self.engine is None or self.engine.forget_carried(name)):
            self._record(trace.Lost(t=now, device=name, ticket=ticket, reason=reason))

    def pause(self, now: float) -> None:
        """Merge nothing more until the next model: the aggregator clusters the devices and wants no result."""
        if self.engine is not None:
            self._record(trace.Paused(t=now, device=self._group.head, ticket_range=self._group.ticket_range))
            self.engine.strategy.pause()

    def receive_model(self, train: Train, moment: float, heard: Mapping[str, int]) -> None:
        """Let the cluster work on a model whose download ended at ``moment``.

        ``heard``: the members that are there when the first model arrives, in the order in which they join, and the
        Train messages that had reached each.
        """
        self._train, self._since = train, moment
        self._feedback.begin(train.ticket, train.arrived)
        assert train.job is not None
        begins = moment if self.engine is None else max(moment, self.engine.now)
        joined = [name for name in heard if name in self._members] if self.engine is None else []
        self._record(trace.Adopted(t=begins, device=self._group.head, ticket=train.ticket, due=moment, joined=joined))
        if self.engine is not None:
            self.engine.adopt(train.model, train.version, train.job, moment)
            return
        self.engine = ClusterEngine(
            HeadStrategy(self._group.quorum, self._group.damped),
            train.model,
            version=train.version,
            ticket_range=self._group.ticket_range,
            jobs={name: jobs for name, _, jobs in self._group.members},
            job=train.job,
            up=self._pass_up,
            send=self._send_to,
            record=self._record,
            carried=self._carried,
            bound=self._bound,
        )
        for name in joined:
            self.join(name, moment, heard[name])
        self.engine.start(moment)

    # ---- from members

    def join(self, name: str, moment: float, trains: int) -> None:
        """Let a member join that has received ``trains`` Train messages. There must be a model."""
        assert self.engine is not None
        self.engine.join(DeviceInfo(name=name, samples=self._members[name]), moment, trains)

    # ---- to the aggregator

    def lose(self, result: Update, reason: str, moment: float) -> None:
        """Report the updates in a result that will not reach the aggregator as lost."""
        for ticket, _, _ in result.merged:
            self._record(trace.Lost(t=moment, device=self._merged[ticket], ticket=ticket, reason=reason))

    def _record(self, event: trace.Event) -> None:
        if isinstance(event, trace.Arrived):
            self._arrived[event.ticket] = event
        if isinstance(event, trace.HeadEvent):
            self.unreported.append(event)

    def _pass_up(self, delta: Vector, merged: Merged) -> None:
        assert self.engine is not None
        assert self._train is not None
        arrived, moment = [self._arrived.pop(ticket) for ticket, _, _ in merged], self.engine.now
        self._merged = {each.ticket: each.device for each in arrived}
        losses = [each.loss for each in arrived if each.loss is not None]
        delta, payload = self._feedback.compress(self._train.ticket, delta)
        update = Update(
            device=self._group.head,
            ticket=self._train.ticket,
            version=self._train.version,
            delta=delta,
            payload=payload,
            samples=sum(self.engine.known[each.device].samples for each in arrived),
            steps=len(merged),
            started=self._since,
            finished=moment,
            due=moment,
            loss=sum(losses) / len(losses) if losses else None,
            merged=merged,
        )
        self._result(update, self._train, moment)
