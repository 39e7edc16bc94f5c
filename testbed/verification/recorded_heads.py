"""The cluster heads of a recorded run: each a real head without its endpoint, fed with what it reported.

Theory of operation (ADR 16, ADR 29)
    A head reports its events in the order in which its engine recorded them, but later than they happened; the trace
    has them among the events of the aggregator. The first event of a call shows which call it was, as at the aggregator
    (``recorded_aggregator``): *adopted* a model from above, *regrouped* a change of members, *paused* the signal of a
    clustering, *arrived* an update, *dispatched* or *carried* a member that joins. The events that the repeated call
    records wait in ``pending`` until the trace has them; there they go through the ledgers of the aggregator, as a
    HeadReport does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from aggregator.engine.head_ledgers import BY_THE_AGGREGATOR, HeadLedger, HeadLedgers
from devices.cluster.cluster_head import ClusterHead
from devices.cluster.head_engine import NOT_THERE
from testbed.history import trace
from testbed.history.events.ticket_events import UPLOAD_GIVEN_UP
from testbed.profile.schema import UpdateBound
from testbed.verification.recorded_devices import RecordedDevices, UpdateMoments
from testbed.verification.repeated_messages import check_order
from testbed.verification.trace_outline import TraceOutline
from testbed.wire.messages import ForDevice, Heartbeat, JoinCluster, Train, Update
from testbed.wire.ticket_ranges import range_of

_NAMING_THE_HEAD = (trace.Adopted, trace.Regrouped, trace.Paused)
_OF_MEMBERS = (trace.Dispatched, trace.Resent, trace.Arrived, trace.Ignored, trace.Rejected, trace.Lost, trace.Carried)
"""Not *superseded*: heads never restart a busy member. Such a ticket has ended with its cluster."""


class _RecordedHead:
    """One head: its cluster, the messages that it has not taken over yet, and its results."""

    def __init__(
        self,
        group: JoinCluster,
        devices: RecordedDevices,
        outline: TraceOutline,
        bound: UpdateBound,
        compression: str,
    ) -> None:
        self.ticket_range, self._name = group.ticket_range, group.head
        self.groups: deque[JoinCluster] = deque()
        """Changes of members that the head has not reported yet."""
        self.models: dict[int, Train] = {}
        self.results: dict[int, Update] = {}
        """Ticket of the aggregator → the result of the cluster."""
        self.pending: deque[trace.HeadEvent] = deque()
        """Events that the trace does not have yet."""
        self._devices, self._outline = devices, outline
        self.cluster = ClusterHead(group, self._send, self._keep, bound, compression)

    def repeat(self, event: trace.HeadEvent) -> None:
        """Repeat the call that recorded this event."""
        match event:
            case trace.Adopted():
                if self.cluster.engine is not None:
                    self.cluster.engine.now = event.t  # heartbeats without effect may have moved it
                self.cluster.receive_model(self.models.pop(event.ticket), event.due, dict.fromkeys(event.joined, 0))
            case trace.Regrouped():
                self.cluster.regroup(self.groups.popleft(), event.t)
            case trace.Paused():
                self.cluster.pause(event.t)
            case trace.Lost() if self.cluster.engine is None:
                self.cluster.drop_carried(event.device, event.reason, event.t)
            case _:
                self._repeat_for_member(event)
        self.pending += self.cluster.unreported
        self.cluster.unreported.clear()

    def _repeat_for_member(self, event: trace.TicketEvent) -> None:
        engine, device, ticket = self.cluster.engine, event.device, event.ticket
        if engine is None:
            return
        match event:
            case trace.Dispatched() | trace.Carried():
                self.cluster.join(device, event.t, 0)
            case trace.Arrived():
                check_order(event, engine.now)
                engine.update(self._update(event), event.t, received=event.received, handled=event.handled)
            case trace.Rejected():
                engine.update(self._update(event), event.t)
            case trace.Resent():
                self._heartbeat(device, event.t, finished=0)
            case trace.Lost() if event.reason == UPLOAD_GIVEN_UP:
                self._heartbeat(device, event.t, finished=ticket)
            case trace.Lost() if event.reason == NOT_THERE:
                self._heartbeat(device, event.t, finished=0)
            case trace.Lost():
                self._lose_result(event)
            case trace.Ignored():
                self.cluster.unreported.append(event)
            case _:
                pass

    def _update(self, event: trace.Arrived | trace.Rejected) -> Update:
        nbytes, own = event.bytes if isinstance(event, trace.Arrived) else None, event.device == self._name
        return self._devices.update_of_member(event.device, event.ticket, UpdateMoments.of(event), nbytes, own=own)

    def _heartbeat(self, device: str, moment: float, *, finished: int) -> None:
        engine = self.cluster.engine
        assert engine is not None
        trains = engine.trains_sent_to(device)
        engine.heartbeat(Heartbeat(device=device, state="", finished=finished, trains=trains), moment)

    def _lose_result(self, event: trace.Lost) -> None:
        """A result that does not reach the aggregator: all of its updates are lost together."""
        lost = next((each for each in self.results.values() if event.ticket in (t for t, _, _ in each.merged)), None)
        if lost is not None:
            del self.results[lost.ticket]
            self.cluster.lose(lost, event.reason, event.t)

    def _send(self, device: str, message: ForDevice) -> None:
        assert self.cluster.engine is not None
        self._devices.receive(device, message)
        if isinstance(message, Train) and (message.ticket, self.cluster.engine.now) in self._outline.unsent:
            raise ConnectionError(device)

    def _keep(self, result: Update, train: Train, moment: float) -> None:
        self.results[result.ticket] = result


class RecordedHeads:
    """All heads of a run, present and past."""

    def __init__(
        self, devices: RecordedDevices, outline: TraceOutline, bound: UpdateBound, compression: Mapping[str, str]
    ) -> None:
        """``compression``: device → how it compresses updates."""
        self._devices, self._outline, self._bound, self._compression = devices, outline, bound, compression
        self._heads: dict[str, _RecordedHead] = {}
        """Device → the last cluster that it was or is the head of."""

    def receive_group(self, device: str, message: JoinCluster) -> None:
        """Accept what the aggregator says about a cluster. Only its head needs it here."""
        if message.head != device:
            return
        head = self._heads.get(device)
        if head is None or head.ticket_range != message.ticket_range:
            method = self._compression[device]
            self._heads[device] = _RecordedHead(message, self._devices, self._outline, self._bound, method)
        else:
            head.groups.append(message)

    def receive_model(self, device: str, train: Train) -> None:
        """Accept a model for the cluster of a head."""
        self._heads[device].models[train.ticket] = train

    def result(self, device: str, ticket: int) -> Update | None:
        """Remove and return the result of a head for a ticket of the aggregator; None if there is none."""
        head = self._heads.get(device)
        return head.results.pop(ticket, None) if head is not None else None

    def reported(self, event: trace.Event, ledgers: HeadLedgers) -> bool:
        """Whether a head reported this event, and the aggregator only entered it in the trace."""
        if isinstance(event, _NAMING_THE_HEAD):
            return True
        if not isinstance(event, _OF_MEMBERS):
            return False
        if isinstance(event, trace.Lost) and event.reason in BY_THE_AGGREGATOR:
            return False
        return _ledger_of(event, ledgers) is not None

    def take(self, event: trace.Event, ledgers: HeadLedgers, explained: Callable[[], bool]) -> None:
        """Enter what the head of this event reported until the event is ``explained``."""
        assert isinstance(event, (*_NAMING_THE_HEAD, *_OF_MEMBERS))
        if isinstance(event, _NAMING_THE_HEAD):
            name = event.device
        else:
            ledger = _ledger_of(event, ledgers)
            assert ledger is not None
            name = ledger.head
        head = self._heads[name]
        if not head.pending:
            head.repeat(event)
        while head.pending and not explained():
            ledgers.enter(name, head.ticket_range, (head.pending.popleft(),))


def _ledger_of(event: trace.TicketEvent, ledgers: HeadLedgers) -> HeadLedger | None:
    """The open ledger that has the ticket of an event: that of the head that gave it out, or took it over."""
    number = range_of(event.ticket)
    mine = (each for each in ledgers.ledgers.values() if each.number == number or event.ticket in each.carried)
    return next(mine, None)
