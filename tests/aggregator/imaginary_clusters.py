"""Imaginary devices, some of them cluster heads: a real strategy, real engines of heads, and no processes.

Head reports reach the aggregator with the heartbeats and results of heads, so they may be lost with them. A suspended
head does not serve its members, but still sends heartbeats. Jobs are carried from former heads as by real devices.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from aggregator.strategies.eafl.head_strategy import HeadStrategy
from aggregator.strategy import DeviceInfo, Merged, Strategy
from devices.cluster.head_engine import ClusterEngine
from testbed.history import trace
from testbed.wire.messages import Heartbeat, JoinCluster, SendGradient, Train, TrainsSent, Update, Vector
from testbed.wire.ticket_ranges import range_of
from tests.aggregator.imaginary import TRANSPORT_SECONDS, Fleet, ImaginaryDevice
from tests.aggregator.strategies.by_hand import validated


class Place:
    """The role of a device in a cluster."""

    def __init__(self, group: JoinCluster) -> None:
        self.group = group
        self.carried = 0
        """The ticket of a former head that the device works on for this one."""
        self.jobs_carried = dict(group.carried)
        """Of a head: member → such a ticket."""
        self.waiting: list[Update] = []
        """Of a head: updates that arrived before its first model."""
        self.trains = 0
        self.engine: ClusterEngine | None = None
        self.for_cluster: Train | None = None
        self.greeted: set[str] = set()
        self.current = self.finished = 0
        self.unreported: list[trace.Event] = []
        self.owners = {ticket: device for device, ticket in group.carried}
        """Ticket → device."""


class ClusteredFleet(Fleet):
    def __init__(self, strategy: Strategy, devices: Sequence[ImaginaryDevice], *, seed: int = 0) -> None:
        self.places: dict[str, Place] = {}
        self.suspended: set[str] = set()
        self.from_server: dict[str, int] = {}
        super().__init__(strategy, devices, seed=seed)

    # ---- incidents

    def restart(self, name: str) -> None:
        self.places.pop(name, None)
        self.suspended.discard(name)
        self.from_server[name] = 0
        super().restart(name)

    def kill(self, name: str) -> None:
        self.places.pop(name, None)
        super().kill(name)

    def suspend(self, name: str) -> None:
        """Stop a device from serving as a head."""
        self.suspended.add(name)

    def resume(self, name: str) -> None:
        self.suspended.discard(name)

    # ---- from the aggregator

    def _send(self, name: str, message: Train | SendGradient | TrainsSent | JoinCluster) -> None:
        device = self.devices[name]
        self._later(TRANSPORT_SECONDS, device, lambda: self._take(device, message))

    def _take(self, device: ImaginaryDevice, message: Train | SendGradient | TrainsSent | JoinCluster) -> None:
        if isinstance(message, JoinCluster):
            self._enter(device, message)
            return
        if isinstance(message, TrainsSent):
            self.from_server[device.name] = max(self.from_server[device.name], message.trains)
            return
        self.from_server[device.name] += 1
        place = self.places.get(device.name)
        if isinstance(message, SendGradient):
            if place is not None and place.engine is not None:
                place.engine.strategy.pause()
            self._receive_signal(device, message)
            return
        if not message.for_cluster:
            self.places.pop(device.name, None)
            self._receive(device, message)
            return
        is_head = place is not None and place.group.head == device.name
        if place is not None and is_head and message.ticket not in (place.current, place.finished):
            place.current = message.ticket
            device.trains_ever += 1
            lost = device.trains_ever in device.lost_downloads
            self._later(device.down, device, lambda: self._adopt(device, place, message, lost))

    def _enter(self, device: ImaginaryDevice, group: JoinCluster) -> None:
        place = self.places.get(device.name)
        if place is not None and place.group.ticket_range == group.ticket_range:
            place.group = group
            self._regroup(place)
            return
        self.places[device.name] = place = Place(group)
        device.answering = 0
        self._carry(device, place, dict(group.carried).get(device.name, 0))
        if group.head != device.name:
            self._later(TRANSPORT_SECONDS, device, lambda: self._greet(device, group.ticket_range))

    def _carry(self, device: ImaginaryDevice, place: Place, ticket: int) -> None:
        """Continue the job of a former head, or upload its update again."""
        is_head = place.group.head == device.name
        if not ticket or (device.downloading == ticket and is_head):
            self._drop_carried(place, device.name)
        elif ticket in (device.downloading, device.working):
            place.carried = ticket
        elif device.last is not None and device.last.ticket == ticket and not device.working:
            place.carried = device.working = ticket
            update = device.last
            self._later(
                0.0 if is_head else device.up, device, lambda: self._end_upload(device, update, device.up, False)
            )
        else:
            self._drop_carried(place, device.name)

    def _drop_carried(self, place: Place, name: str) -> None:
        ticket = place.jobs_carried.pop(name, 0) if place.group.members else 0  # only the head reports it
        if ticket and (place.engine is None or place.engine.forget_carried(name)):
            place.unreported.append(trace.Lost(t=self.clock.now(), device=name, ticket=ticket, reason="it has gone"))

    def _regroup(self, place: Place) -> None:
        members, engine = {name for name, _, _ in place.group.members}, place.engine
        for name in [name for name in place.jobs_carried if members and name not in members]:
            self._drop_carried(place, name)
        if engine is None:
            return
        for name in [name for name in engine.devices if name not in members]:
            place.greeted.discard(name)
            engine.leave(name, "no member", self.clock.now())
        engine.set_quorum(place.group.quorum, self.clock.now())

    def _adopt(self, device: ImaginaryDevice, place: Place, train: Train, lost: bool) -> None:
        if self.places.get(device.name) is not place or place.current != train.ticket:
            return
        if device.name in self.suspended:
            self._later(0.5, device, lambda: self._adopt(device, place, train, lost))
        elif lost:
            place.current = 0
        elif place.engine is not None:
            place.for_cluster = train
            place.engine.adopt(train.model, train.version, train.job, self.clock.now())
        else:
            place.for_cluster = train
            self._start_engine(device, place, train)

    def _start_engine(self, device: ImaginaryDevice, place: Place, train: Train) -> None:
        group = place.group
        place.engine = engine = validated(
            ClusterEngine(
                HeadStrategy(group.quorum, group.damped),
                train.model,
                version=train.version,
                ticket_range=group.ticket_range,
                jobs={name: jobs for name, _, jobs in group.members},
                job=train.job,
                up=lambda delta, merged: self._pass_up(device, place, delta, merged),
                send=lambda name, message: self._give(place, name, message),
                record=place.unreported.append,
                carried=place.jobs_carried,
            )
        )
        for name in sorted({device.name, *place.greeted}):
            engine.join(self._info(name), self.clock.now())
        engine.start(self.clock.now())
        for update in place.waiting:
            engine.update(update, self.clock.now())

    def _info(self, name: str) -> DeviceInfo:
        return DeviceInfo(name=name, samples=self.devices[name].samples)

    # ---- within a cluster

    def _head_of(self, device: ImaginaryDevice, ticket_range: int) -> Place | None:
        """Return the place of the device's head, unless the head is suspended or has gone."""
        place = self.places.get(device.name)
        if place is None or place.group.ticket_range != ticket_range or place.group.head in self.suspended:
            return None
        head = self.places.get(place.group.head)
        return head if head is not None and head.group.ticket_range == ticket_range else None

    def _greet(self, device: ImaginaryDevice, ticket_range: int) -> None:
        place, head = self.places.get(device.name), self._head_of(device, ticket_range)
        if place is None or place.group.ticket_range != ticket_range:
            return
        if head is None:
            self._later(0.1, device, lambda: self._greet(device, ticket_range))
        elif device.name in {name for name, _, _ in head.group.members}:
            head.greeted.add(device.name)
            if head.engine is not None and not head.engine.is_present(device.name):
                head.engine.join(self._info(device.name), self.clock.now(), place.trains)

    def _give(self, place: Place, name: str, train: Train | TrainsSent | JoinCluster) -> None:
        member = self.devices[name]
        if isinstance(train, TrainsSent):
            self._later(TRANSPORT_SECONDS, member, lambda: self._count(member, place, train.trains))
            return
        assert isinstance(train, Train)
        place.owners[train.ticket] = name
        self._later(TRANSPORT_SECONDS, member, lambda: self._receive_from_head(member, train))

    def _count(self, member: ImaginaryDevice, head: Place, trains: int) -> None:
        place = self.places.get(member.name)
        if place is not None and place.group.ticket_range == head.group.ticket_range:
            place.trains = max(place.trains, trains)

    def _receive_from_head(self, member: ImaginaryDevice, train: Train) -> None:
        place = self.places.get(member.name)
        if place is not None and place.group.ticket_range == range_of(train.ticket):
            place.trains += 1
            if place.group.head == member.name:  # from itself: over no link
                member.downloading = train.ticket
                self._end_download(member, train, lost=False)
            else:
                self._receive(member, train)

    def _pass_up(self, device: ImaginaryDevice, place: Place, delta: Vector, merged: Merged) -> None:
        for_cluster, now = place.for_cluster, self.clock.now()
        assert for_cluster is not None
        place.finished = for_cluster.ticket
        device.jobs_ever += 1
        update = Update(
            device=device.name,
            ticket=for_cluster.ticket,
            version=for_cluster.version,
            delta=delta,
            samples=1,
            steps=1,
            started=now,
            finished=now,
            due=now + device.up,
            loss=None,
            merged=merged,
        )
        given_up = device.jobs_ever in device.given_up
        self._later(device.up, device, lambda: self._arrive(device, place, update, given_up))

    def _arrive(self, device: ImaginaryDevice, place: Place, update: Update, given_up: bool) -> None:
        if place.current == update.ticket:
            place.current = 0
        if not given_up:
            self._return_if_gone(device)
            self._report(device, place)
            self.engine.update(update, self.clock.now())
            return
        now, reason = self.clock.now(), "its head's upload was given up"
        place.unreported += [
            trace.Lost(t=now, device=place.owners[ticket], ticket=ticket, reason=reason)
            for ticket, _, _ in update.merged
        ]

    def _report(self, device: ImaginaryDevice, place: Place) -> None:
        events = [event for event in place.unreported if isinstance(event, trace.HeadEvent)]
        place.unreported.clear()
        self.engine.head_ledgers.enter(device.name, place.group.ticket_range, events)

    # ---- overridden: devices without clusters

    def _end_upload(self, device: ImaginaryDevice, update: Update, seconds: float, given_up: bool) -> None:
        place = self.places.get(device.name)
        if place is None:
            super()._end_upload(device, update, seconds, given_up)
        elif device.name in self.suspended:  # its own updates wait, too
            self._later(0.5, device, lambda: self._end_upload(device, update, seconds, given_up))
        elif device.working == update.ticket:
            device.working = 0
            is_carried = update.ticket == place.carried
            head = self._head_of(device, place.group.ticket_range if is_carried else range_of(update.ticket))
            if head is None or (given_up and device.name != place.group.head):
                return
            if head.engine is not None:
                head.engine.update(update, self.clock.now())
            elif is_carried:
                head.waiting.append(update)

    def _join(self, device: ImaginaryDevice) -> None:
        self.engine.join(self._info(device.name), self.clock.now(), self.from_server.get(device.name, 0))

    def _send_heartbeat(self, device: ImaginaryDevice) -> None:
        self._return_if_gone(device)
        place, now = self.places.get(device.name), self.clock.now()
        ticket, finished, trains = device.downloading or device.working, device.finished, self.from_server[device.name]
        heartbeat = Heartbeat(device=device.name, state="", ticket=ticket, finished=finished, trains=trains)
        if place is None:
            self.engine.heartbeat(heartbeat, now)
        else:
            self._send_heartbeat_in_cluster(device, place, heartbeat)
        self._later(self._heartbeat_seconds, device, lambda: self._send_heartbeat(device))

    def _send_heartbeat_in_cluster(self, device: ImaginaryDevice, place: Place, heartbeat: Heartbeat) -> None:
        now, is_head = self.clock.now(), place.group.head == device.name
        if is_head:
            self._report(device, place)
        current, finished = (place.current, place.finished) if is_head else (0, 0)
        current, finished = device.answering or current, max(device.signalled, finished)
        self.engine.heartbeat(replace(heartbeat, ticket=current, finished=finished), now)
        head = self._head_of(device, place.group.ticket_range)
        if head is None or is_head:
            return
        self._greet(device, place.group.ticket_range)
        if head.engine is not None:
            head.engine.heartbeat(replace(heartbeat, trains=place.trains), now)
