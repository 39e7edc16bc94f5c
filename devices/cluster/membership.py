"""A device's place in a cluster: as a member whose jobs come from a head, as that head, or nowhere.

Heartbeats and events go to the aggregator as before. To its head, a member says only what an engine needs to know.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from devices.cluster.head import Head
from devices.cluster.head_link import HeadLink
from devices.device import Device
from devices.device_config import DeviceConfig
from devices.work import State
from testbed.emulation.faults import timetable
from testbed.history.trace import as_table
from testbed.wire.codec import encode, heard, largest_frame
from testbed.wire.messages import MOST_EVENTS, Ask, HeadReport, Heartbeat, JoinCluster, Train, Update, range_of
from testbed.wire.sockets import Hub, Peer, PeerUnreachable

_RETRY_SECONDS = 0.02
"""Host seconds: a head may open its endpoint a moment after its members were told of it."""


class Membership:
    def __init__(self, config: DeviceConfig, size: int, device: Device, lead: float) -> None:
        self._config, self._size, self._device = config, size, device
        self._relay = HeadLink(
            config.spec, timetable(config.spec, config.seed), self._lost, lead=lead, dies_at=device.dies_at
        )
        self._group: JoinCluster | None = None
        self._boss: Peer | None = None
        self._head: Head | None = None
        self._old: set[int] = set()
        """Books of heads: what is made for a ticket of one that is not ours any more, nobody wants."""
        self._for_boss: list[Update] = []
        self._trains = 0
        """That this head has sent."""
        self._greets_at: float | None = None
        """When to say hello to the head, by a heartbeat; None: that is done."""
        self._now = 0.0
        self.outbox = self._relay.outbox
        """For the aggregator."""

    # ---- what the aggregator says

    def enter(self, group: JoinCluster, now: float) -> None:
        if self._group is not None and self._group.ticket_range == group.ticket_range:
            self._group = group
            if self._head is not None:
                self._head.regroup(group, now)
            return
        self.leave()
        self._group, self._trains = group, 0
        self._old.add(group.ticket_range)
        endpoint, name = f"ipc://{self._config.heads}/head-{group.ticket_range}", self._config.spec.name
        if group.head == name:
            self._head = Head(group, endpoint, self._size, self._give, self._relay.send)
            self._device.own_range = group.ticket_range
        else:
            self._boss = Peer(endpoint, name, max_bytes=largest_frame(self._size))
            self._greets_at = now

    def leave(self) -> None:
        """It belongs to no cluster any more; what it has for the head is no use."""
        if self._boss is not None:
            self._boss.close(linger=0)
        if self._head is not None:
            self._head.close()
        self._boss = self._head = self._group = self._greets_at = self._device.own_range = None
        self._for_boss.clear()
        self._relay.drop()

    def receive_model(self, train: Train, now: float) -> None:
        """A model for the cluster; not if the aggregator has another head in mind meanwhile. One is to be trained."""
        if self._head is not None and train.job is not None:
            self._relay.receive(train, now)

    # ---- meanwhile

    def advance(self, now: float) -> None:
        """Hear the others of the cluster, and do what is due. A head that hangs serves nobody."""
        self._now = now
        if self._boss is not None:
            self._hear_boss(self._boss, now)
            self._deliver(self._boss)
        if self._head is not None and self._device.state is not State.SUSPENDED:
            awake_since = self._device.awake_since
            self._head.listen(now, awake_since)
            model = self._relay.take(now)
            if model is not None:
                self._head.receive_model(model[0], max(model[1], awake_since))
        self._relay.advance(now)

    def due(self) -> float:
        """When :meth:`advance` is next wanted; of a head that hangs, when it is back: its device knows that."""
        moment = min(self._relay.up_due, math.inf if self._greets_at is None else self._greets_at)
        if self._head is not None and self._device.state is not State.SUSPENDED:
            moment = min(moment, self._head.due, self._relay.down_due)
        return moment

    @property
    def ends(self) -> Sequence[Hub | Peer]:
        """Where others of the cluster may be heard."""
        return [end for end in (self._boss, self._head.hub if self._head is not None else None) if end is not None]

    def takes(self, update: Update | Ask) -> bool:
        """Whether an update is not for the aggregator: it is for the head, or for one that is not ours any more."""
        ticket_range = range_of(update.ticket)
        if isinstance(update, Ask) or ticket_range not in self._old:
            return False
        if self._group is not None and ticket_range == self._group.ticket_range:
            if self._head is not None:
                self._head.take(update, self._now)
            elif self._boss is not None:
                self._for_boss.append(update)
                self._deliver(self._boss)
        return True

    # ---- heartbeats and books

    def tell_boss(self) -> None:
        """A heartbeat, unless it would overtake an update that waits: that would seem to have been given up."""
        if self._boss is not None and not self._for_boss:
            try:
                self._boss.send(encode(replace(self._device.standing(), trains=self._trains)))
            except PeerUnreachable:
                return
            self._greets_at = None

    def for_aggregator(self, beat: Heartbeat) -> Heartbeat:
        """What a heartbeat tells the aggregator: of its own tickets only, and those of a head are for its cluster."""
        relay, events = self._relay, tuple(as_table(event) for event in self._relay.events)
        self._relay.events.clear()
        beat = replace(beat, events=beat.events + events, drops=beat.drops + relay.drops)
        if self._group is None:
            return beat
        if self._head is None:
            return replace(beat, ticket=0, finished=0)
        return replace(beat, ticket=relay.current, finished=relay.finished)

    def ledgers(self) -> list[HeadReport]:
        """What is to be told of the book that is kept here."""
        if self._head is None or self._group is None:
            return []
        events, self._head.ledger = self._head.ledger, []
        name, ticket_range = self._config.spec.name, self._group.ticket_range
        return [
            HeadReport(device=name, ticket_range=ticket_range, events=tuple(events[at : at + MOST_EVENTS]))
            for at in range(0, len(events), MOST_EVENTS)
        ]

    # ---- the head, and what goes to it

    def _give(self, train: Train) -> None:
        self._device.receive(train, self._now)

    def _lost(self, result: Update, reason: str, moment: float) -> None:
        if self._head is not None:
            self._head.lose(result, reason, moment)

    def _hear_boss(self, boss: Peer, now: float) -> None:
        while (frames := boss.receive(0)) is not None:
            message = heard(frames, self._size)
            if isinstance(message, Train):
                self._trains += 1
                self._device.receive(message, now)

    def _deliver(self, boss: Peer) -> None:
        """At once: nobody would wake us for it later. What the transport cannot take is tried again."""
        try:
            while self._for_boss:
                boss.send(encode(replace(self._for_boss[0], trains=self._trains)))
                del self._for_boss[0]
        except PeerUnreachable:
            self._greets_at = self._now
        if self._greets_at is not None and self._greets_at <= self._now:
            self._greets_at = self._now + _RETRY_SECONDS / self._config.dilation
            self.tell_boss()
