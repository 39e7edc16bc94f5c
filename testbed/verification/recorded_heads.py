"""The cluster heads of a recorded run: each a real head without its endpoint, fed with what it reported.

Theory of operation (ADR 16, ADR 29)
    A head reports its events in the order in which its engine recorded them, but later than they happened; the trace
    has them among the events of the aggregator. The first event of a call shows which call it was, as at the aggregator
    (``recorded_aggregator``): *adopted* a model from above, *regrouped* a change of members, *arrived* an update,
    *dispatched* a member that joins. The events that the repeated call records wait in ``pending`` until the trace has
    them; there they go through the ledgers of the aggregator, as a HeadReport does.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable

from aggregator.engine.head_ledgers import BY_THE_AGGREGATOR, HeadLedgers
from devices.cluster.cluster_head import ClusterHead
from testbed.history import trace
from testbed.history.events.ticket_events import UPLOAD_GIVEN_UP
from testbed.profile.schema import UpdateBound
from testbed.verification.recorded_devices import RecordedDevices
from testbed.verification.trace_cursor import TraceCursor
from testbed.verification.trace_outline import TraceOutline
from testbed.wire.messages import ForDevice, Heartbeat, JoinCluster, Train, Update
from testbed.wire.ticket_ranges import range_of

_NAMING_THE_HEAD = (trace.Adopted, trace.Regrouped)
_OF_MEMBERS = (trace.Dispatched, trace.Resent, trace.Arrived, trace.Ignored, trace.Rejected, trace.Lost)
"""Not *superseded*: heads never restart a busy member. Such a ticket has ended with its cluster."""


class _RecordedHead:
    """One head: its cluster, the messages that it has not taken over yet, and its results."""

    def __init__(self, group: JoinCluster, devices: RecordedDevices, outline: TraceOutline, bound: UpdateBound) -> None:
        self.ticket_range = group.ticket_range
        self.groups: deque[JoinCluster] = deque()
        """Changes of members that the head has not reported yet."""
        self.models: dict[int, Train] = {}
        self.results: dict[int, Update] = {}
        """Ticket of the aggregator → the result of the cluster."""
        self.pending: deque[trace.HeadEvent] = deque()
        """Events that the trace does not have yet."""
        self._devices, self._outline = devices, outline
        self.cluster = ClusterHead(group, self._send, self._keep, bound)

    def repeat(self, event: trace.HeadEvent, cursor: TraceCursor) -> None:
        """Repeat the call that recorded this event."""
        match event:
            case trace.Adopted():
                if self.cluster.engine is not None:
                    self.cluster.engine.now = event.t  # heartbeats without effect may have moved it
                present = dict.fromkeys(self._joining(event, cursor), 0)
                self.cluster.receive_model(self.models.pop(event.ticket), event.due, present)
            case trace.Regrouped():
                self.cluster.regroup(self.groups.popleft(), event.t)
            case _:
                self._repeat_for_member(event)
        self.pending += self.cluster.unreported
        self.cluster.unreported.clear()

    def _repeat_for_member(self, event: trace.TicketEvent) -> None:
        engine, device, ticket = self.cluster.engine, event.device, event.ticket
        if engine is None:
            return
        match event:
            case trace.Dispatched():
                self.cluster.join(device, event.t, 0)
            case trace.Arrived():
                update = self._devices.update_of_member(
                    device, ticket, started=event.started or 0.0, finished=event.finished or 0.0, due=event.due
                )
                engine.update(update, event.t, received=event.received, handled=event.handled)
            case trace.Rejected():
                update = self._devices.update_of_member(device, ticket, started=0.0, finished=0.0, due=event.t)
                engine.update(update, event.t)
            case trace.Resent():
                self._heartbeat(device, event.t, finished=0)
            case trace.Lost() if event.reason == UPLOAD_GIVEN_UP:
                self._heartbeat(device, event.t, finished=ticket)
            case trace.Lost():
                self._lose_result(event)
            case trace.Ignored():
                self.cluster.unreported.append(event)
            case _:
                pass

    def _joining(self, adopted: trace.Adopted, cursor: TraceCursor) -> list[str]:
        """The members that are there when the first model arrives: it is dispatched to them in this order."""
        own = (
            event
            for event in cursor.ahead()
            if isinstance(event, trace.TicketEvent) and range_of(event.ticket) == self.ticket_range
        )
        first = itertools.takewhile(lambda event: isinstance(event, trace.Dispatched) and event.t == adopted.t, own)
        return [event.device for event in first]

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
        self, devices: RecordedDevices, cursor: TraceCursor, outline: TraceOutline, bound: UpdateBound
    ) -> None:
        self._devices, self._cursor, self._outline, self._bound = devices, cursor, outline, bound
        self._heads: dict[str, _RecordedHead] = {}
        """Device → the last cluster that it was or is the head of."""

    def receive_group(self, device: str, message: JoinCluster) -> None:
        """Accept what the aggregator says about a cluster. Only its head needs it here."""
        if message.head != device:
            return
        head = self._heads.get(device)
        if head is None or head.ticket_range != message.ticket_range:
            self._heads[device] = _RecordedHead(message, self._devices, self._outline, self._bound)
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
        number = range_of(event.ticket)
        return any(ledger.number == number for ledger in ledgers.ledgers.values())

    def take(self, event: trace.Event, ledgers: HeadLedgers, explained: Callable[[], bool]) -> None:
        """Enter what the head of this event reported until the event is ``explained``."""
        assert isinstance(event, (*_NAMING_THE_HEAD, *_OF_MEMBERS))
        name = event.device if isinstance(event, _NAMING_THE_HEAD) else ledgers.head_of_range[range_of(event.ticket)]
        head = self._heads[name]
        if not head.pending:
            head.repeat(event, self._cursor)
        while head.pending and not explained():
            ledgers.enter(name, head.ticket_range, (head.pending.popleft(),))
