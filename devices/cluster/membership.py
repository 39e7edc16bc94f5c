"""The place of a device in a cluster: member, head, or none.

Theory of operation (ADR 16)
    Roles: the aggregator assigns them. After *JoinCluster* a device is the head if the message names it, else a member.
    It stays so until it gets another *JoinCluster*, or a Train that is not for a cluster: then it is in no cluster.
    No role: jobs come from the aggregator, and updates go to it. This module does nothing.
    Member: jobs come from the head, over the head's own endpoint (``ipc``) and the emulated links of this device.
    Updates go back the same way. Heartbeats and events still go to the aggregator, which decides who is present; the
    head gets heartbeats without events, because its engine needs to know which tickets a member has.
    Head: ``Head`` runs an engine over the members. Models for the cluster (``Train.for_cluster``) come down the
    emulated link of this device, and the results of the cluster go up (``HeadLink``). The head is also a member; its
    own jobs go over no link. What became of its tickets goes to the aggregator in *HeadReport* messages.
    Clustering (ADR 28): at *SendGradient* a device uploads the last update that it has to the aggregator, and continues
    its job; a head merges nothing more. The next *JoinCluster* names the job that the device carries to its new head.
    Ticket ranges: the aggregator and each head give out tickets of their own ranges. The range of a ticket shows where
    an update belongs: the aggregator's range → the aggregator; the range of the current head, or the carried ticket →
    that head; the range of an earlier head → nowhere, as the aggregator has ended these tickets. In heartbeats to the
    aggregator, a device in a cluster shows the ticket of its gradient, or of the model for its cluster, or none.
"""

from __future__ import annotations

import math

from msgspec.structs import replace

from devices.cluster.head import Head
from devices.cluster.head_engine import NOT_THERE
from devices.cluster.head_link import HeadLink
from devices.cluster.message_ends import ClusterLinks, MemberEnd
from devices.device import Device
from devices.device_config import DeviceConfig
from devices.work import State
from testbed.emulation.faults import timetable
from testbed.wire.messages import (
    MOST_EVENTS,
    Ask,
    HeadReport,
    Heartbeat,
    JoinCluster,
    SendGradient,
    Train,
    TrainsSent,
    Update,
)
from testbed.wire.sockets import PeerUnreachable
from testbed.wire.ticket_ranges import range_of

_RETRY_SECONDS = 0.02
"""Host seconds: a head may open its endpoint a moment after its members learn of it."""


class Membership:
    """The role of one device. An update is handed to the transport ``lead`` seconds before it is due."""

    def __init__(self, config: DeviceConfig, links: ClusterLinks, device: Device, lead: float) -> None:
        """``links`` opens the connections between heads and members."""
        self._config, self._links, self._device = config, links, device
        schedule = timetable(config.spec, config.seed)
        self._link = HeadLink(config.spec, schedule, self._lost, lead=lead, dies_at=device.dies_at)
        self._group: JoinCluster | None = None
        self._peer: MemberEnd | None = None
        """The connection of a member to its head."""
        self._head: Head | None = None
        self._head_ranges: set[int] = set()
        """The ticket ranges of all heads so far. An update of a former head's range is discarded."""
        self._carried = 0
        """The ticket of a former head that the device works on for the present one; 0: there is none."""
        self._signal: SendGradient | None = None
        """A signal that is not answered yet."""
        self._asked = False
        """Whether the last signal came after the last job from the aggregator."""
        self._for_head: list[Update] = []
        self._trains = 0
        """Train messages from the current head."""
        self._greets_at: float | None = None
        """When to send the head a first heartbeat; None: that has been done."""
        self._now = 0.0
        self.outbox = self._link.outbox
        """Results for the aggregator."""

    # ---- from the aggregator

    def enter(self, group: JoinCluster, now: float) -> None:
        """Take a role in a cluster. With the same ticket range, only members and quorum have changed."""
        if self._group is not None and self._group.ticket_range == group.ticket_range:
            self._group = group
            if self._head is not None:
                self._head.regroup(group, now)
            return
        self.leave()
        self._group, self._trains, self._now = group, 0, now
        self._head_ranges.add(group.ticket_range)
        name = self._config.spec.name
        if group.head == name:
            bound, compression = self._config.bound, self._config.spec.compress_updates
            members = self._links.open(group.ticket_range)
            self._head = Head(group, members, self._give, self._link.send, bound, compression)
            self._device.own_range = group.ticket_range
        else:
            self._peer = self._links.connect(group.ticket_range, name)
            self._greets_at = now
        self._carry(dict(group.carried).get(name, 0), max(group.sent, self._device.awake_since), now)

    def _carry(self, ticket: int, moment: float, now: float) -> None:
        """Continue a job of a former head, if the device has it. If not, heartbeats show that to the new head."""
        if ticket and self._device.carry(ticket, moment, own=self._head is not None):
            self._carried = ticket
        elif ticket and self._head is not None:  # there are no heartbeats from a head to itself
            self._head.drop_carried(self._config.spec.name, NOT_THERE, now)

    def leave(self) -> None:
        """Leave the cluster, if the device is in one. Updates for its head are discarded."""
        if not self.active:
            return
        self._carried, self._signal, self._asked = 0, None, False
        if self._peer is not None:
            self._peer.close()
        if self._head is not None:
            self._head.close()
        self._peer = self._head = self._group = self._greets_at = self._device.own_range = None
        self._for_head.clear()
        self._link.drop()

    def receive_model(self, train: Train, now: float) -> None:
        """Accept a model for the cluster, unless this device is no longer the head or there is nothing to train."""
        if self._head is not None and train.job is not None:
            self._link.receive(train, now)

    def receive_signal(self, signal: SendGradient, now: float) -> None:
        """Accept the signal of a clustering. It is answered at the next ``advance``, or when a suspension ends."""
        self._asked, self._signal = True, signal
        if self._head is not None:
            self._head.pause(now)

    # ---- between messages

    @property
    def active(self) -> bool:
        """Whether the device is in a cluster, or was asked for a gradient. If not, ``advance`` has nothing to do."""
        return self._group is not None or self._asked

    def advance(self, now: float) -> None:
        """Receive messages of the cluster, and do what is due. A suspended head does neither."""
        self._now = now
        if self._peer is not None:
            self._listen_to_head(self._peer, now)
            self._deliver(self._peer)
        if self._head is not None and self._device.state is not State.SUSPENDED:
            awake_since = self._device.awake_since
            self._head.listen(now, awake_since)
            model = self._link.take(now)
            if model is not None:
                self._head.begin(model[0], max(model[1], awake_since))
        self._answer_signal(now)
        self._link.advance(now)

    def _answer_signal(self, now: float) -> None:
        signal, device = self._signal, self._device
        if signal is not None and device.state is not State.SUSPENDED:
            self._signal = None
            self._link.send_gradient(signal, device.gradient, max(signal.sent, device.awake_since), now)

    def due(self) -> float:
        """Return when :meth:`advance` is wanted next. The device knows when a suspended head continues."""
        moment = min(self._link.up_due, math.inf if self._greets_at is None else self._greets_at)
        if self._head is not None and self._device.state is not State.SUSPENDED:
            moment = min(moment, self._head.due, self._link.down_due)
        return moment

    def intercept(self, update: Update | Ask) -> bool:
        """Return whether an update is not for the aggregator. If so, it goes to the head, or is discarded."""
        ticket_range = range_of(update.ticket)
        if isinstance(update, Ask) or ticket_range not in self._head_ranges:
            return False
        if self._group is not None and (ticket_range == self._group.ticket_range or update.ticket == self._carried):
            if self._head is not None:
                self._head.take(update, self._now)
            elif self._peer is not None:
                self._for_head.append(update)
                self._deliver(self._peer)
        return True

    # ---- heartbeats and head reports

    def send_heartbeat_to_head(self) -> None:
        """Send a heartbeat, unless an update waits: the head would see a finished job and take its update for lost."""
        if self._peer is not None and not self._for_head and not self._device.outbox:
            try:
                self._peer.send(replace(self._device.heartbeat_without_events(), trains=self._trains))
            except PeerUnreachable:
                return
            self._greets_at = None

    def for_aggregator(self, heartbeat: Heartbeat) -> Heartbeat:
        """Return a heartbeat with the events of the head's link, and with tickets of the aggregator only."""
        link, events = self._link, tuple(self._link.events)
        link.events.clear()
        heartbeat = replace(heartbeat, events=heartbeat.events + events, drops=heartbeat.drops + link.drops)
        if not self.active:
            return heartbeat
        ticket = link.current if self._signal is None else self._signal.ticket
        return replace(heartbeat, ticket=ticket, finished=link.finished)

    def head_reports(self) -> list[HeadReport]:
        """Return what became of the head's tickets since the last call."""
        if self._head is None or self._group is None:
            return []
        events, self._head.unreported = self._head.unreported, []
        name, ticket_range = self._config.spec.name, self._group.ticket_range
        return [
            HeadReport(device=name, ticket_range=ticket_range, events=tuple(events[at : at + MOST_EVENTS]))
            for at in range(0, len(events), MOST_EVENTS)
        ]

    # ---- between head and member

    def _give(self, train: Train) -> None:
        self._device.receive(train, self._now)

    def _lost(self, result: Update, reason: str, moment: float) -> None:
        if self._head is not None:
            self._head.lose(result, reason, moment)

    def _listen_to_head(self, peer: MemberEnd, now: float) -> None:
        for message in peer.receive():
            if isinstance(message, Train):
                self._trains += 1
                self._device.receive(message, now)
            elif isinstance(message, TrainsSent):
                self._trains = max(self._trains, message.trains)

    def _deliver(self, peer: MemberEnd) -> None:
        """Send updates to the head at once. What the transport refuses is sent again after ``_RETRY_SECONDS``."""
        try:
            while self._for_head:
                peer.send(replace(self._for_head[0], trains=self._trains))
                del self._for_head[0]
        except PeerUnreachable:
            self._greets_at = self._now
        if self._greets_at is not None and self._greets_at <= self._now:
            self._greets_at = self._now + _RETRY_SECONDS / self._config.dilation
            self.send_heartbeat_to_head()
