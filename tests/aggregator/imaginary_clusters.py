"""Imaginary devices of which some head clusters: a real rule, real engines of heads, and no processes.

What heads tell of their books reaches the aggregator with their heartbeats and results, so that it may be lost with
them. A head that hangs serves nobody, but its heartbeats go on.
"""

from __future__ import annotations

from collections.abc import Sequence

from aggregator.strategies.eafl.head_strategy import HeadStrategy
from aggregator.strategy import DeviceInfo, Strategy
from devices.cluster.head_engine import ClusterEngine, Merged
from testbed.history import trace
from testbed.wire.messages import Heartbeat, JoinCluster, Train, Update, Vector, range_of
from tests.aggregator.imaginary import TRANSPORT_SECONDS, Fleet, ImaginaryDevice


class Place:
    """Where a device belongs, and what it does there."""

    def __init__(self, group: JoinCluster) -> None:
        self.group = group
        self.trains = 0
        self.engine: ClusterEngine | None = None
        self.for_cluster: Train | None = None
        self.greeted: set[str] = set()
        self.held = self.finished = 0
        self.ledger: list[trace.Event] = []
        self.owners: dict[int, str] = {}
        """Ticket → device."""


class ClusteredFleet(Fleet):
    def __init__(self, strategy: Strategy, devices: Sequence[ImaginaryDevice], *, seed: int = 0) -> None:
        self.places: dict[str, Place] = {}
        self.hanging: set[str] = set()
        self.from_server: dict[str, int] = {}
        super().__init__(strategy, devices, seed=seed)

    # ---- what befalls devices

    def restart(self, name: str) -> None:
        self.places.pop(name, None)
        self.hanging.discard(name)
        self.from_server[name] = 0
        super().restart(name)

    def kill(self, name: str) -> None:
        self.places.pop(name, None)
        super().kill(name)

    def suspension(self, name: str) -> None:
        """As a head it serves nobody any more."""
        self.hanging.add(name)

    def come_back(self, name: str) -> None:
        self.hanging.discard(name)

    # ---- from the aggregator

    def _send(self, name: str, message: Train | JoinCluster) -> None:
        device = self.devices[name]
        self._later(TRANSPORT_SECONDS, device, lambda: self._take(device, message))

    def _take(self, device: ImaginaryDevice, message: Train | JoinCluster) -> None:
        if isinstance(message, JoinCluster):
            self._enter(device, message)
            return
        self.from_server[device.name] += 1
        place = self.places.get(device.name)
        if not message.for_cluster:
            self.places.pop(device.name, None)
            self._receive(device, message)
        elif (
            place is not None and place.group.head == device.name and message.ticket not in (place.held, place.finished)
        ):
            place.held = message.ticket
            device.trains_ever += 1
            lost = device.trains_ever in device.lost_downloads
            self._later(device.down, device, lambda: self._adopt(device, place, message, lost))

    def _enter(self, device: ImaginaryDevice, group: JoinCluster) -> None:
        place = self.places.get(device.name)
        if place is not None and place.group.ticket_range == group.ticket_range:
            place.group = group
            if place.engine is not None:
                self._regroup(place, place.engine)
            return
        self.places[device.name] = Place(group)
        if group.head != device.name:
            self._later(TRANSPORT_SECONDS, device, lambda: self._greet(device, group.ticket_range))

    def _regroup(self, place: Place, engine: ClusterEngine) -> None:
        members = {name for name, _, _ in place.group.members}
        for name in [name for name in engine.devices if name not in members]:
            place.greeted.discard(name)
            engine.leave(name, "no member", self.clock.now())
        engine.want(place.group.quorum, self.clock.now())

    def _adopt(self, device: ImaginaryDevice, place: Place, train: Train, lost: bool) -> None:
        if self.places.get(device.name) is not place or place.held != train.ticket:
            return
        if device.name in self.hanging:
            self._later(0.5, device, lambda: self._adopt(device, place, train, lost))
        elif lost:
            place.held = 0
        elif place.engine is not None:
            place.for_cluster = train
            place.engine.adopt(train.model, train.version, train.job, self.clock.now())
        else:
            place.for_cluster = train
            self._found(device, place, train)

    def _found(self, device: ImaginaryDevice, place: Place, train: Train) -> None:
        group = place.group
        place.engine = engine = ClusterEngine(
            HeadStrategy(group.quorum, group.damped),
            train.model,
            version=train.version,
            ticket_range=group.ticket_range,
            jobs={name: jobs for name, _, jobs in group.members},
            job=train.job,
            up=lambda delta, merged: self._pass_up(device, place, delta, merged),
            send=lambda name, message: self._give(place, name, message),
            record=place.ledger.append,
        )
        for name in sorted({device.name, *place.greeted}):
            engine.join(self._info(name), self.clock.now())
        engine.start(self.clock.now())

    def _info(self, name: str) -> DeviceInfo:
        return DeviceInfo(name=name, samples=self.devices[name].samples)

    # ---- within a cluster

    def _boss_of(self, device: ImaginaryDevice, ticket_range: int) -> Place | None:
        """The head of a cluster, if it serves."""
        place = self.places.get(device.name)
        if place is None or place.group.ticket_range != ticket_range or place.group.head in self.hanging:
            return None
        boss = self.places.get(place.group.head)
        return boss if boss is not None and boss.group.ticket_range == ticket_range else None

    def _greet(self, device: ImaginaryDevice, ticket_range: int) -> None:
        place, boss = self.places.get(device.name), self._boss_of(device, ticket_range)
        if place is None or place.group.ticket_range != ticket_range:
            return
        if boss is None:
            self._later(0.1, device, lambda: self._greet(device, ticket_range))
        elif device.name in {name for name, _, _ in boss.group.members}:
            boss.greeted.add(device.name)
            if boss.engine is not None and not boss.engine.is_present(device.name):
                boss.engine.join(self._info(device.name), self.clock.now(), place.trains)

    def _give(self, place: Place, name: str, train: Train | JoinCluster) -> None:
        assert isinstance(train, Train)
        member = self.devices[name]
        place.owners[train.ticket] = name
        self._later(TRANSPORT_SECONDS, member, lambda: self._receive_from_head(member, train))

    def _receive_from_head(self, member: ImaginaryDevice, train: Train) -> None:
        place = self.places.get(member.name)
        if place is not None and place.group.ticket_range == range_of(train.ticket):
            place.trains += 1
            if place.group.head == member.name:  # from itself: over no link, so nothing is lost
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
        if place.held == update.ticket:
            place.held = 0
        if not given_up:
            self._return_if_gone(device)
            self._tell_books(device, place)
            self.engine.update(update, self.clock.now())
            return
        now, reason = self.clock.now(), "its head's upload was given up"
        place.ledger += [
            trace.Lost(t=now, device=place.owners[ticket], ticket=ticket, reason=reason)
            for ticket, _, _ in update.merged
        ]

    def _tell_books(self, device: ImaginaryDevice, place: Place) -> None:
        events, place.ledger[:] = list(place.ledger), []
        told = [trace.as_table(event) for event in events if isinstance(event, trace.HeadEvent)]
        self.engine.head_ledgers.enter(device.name, place.group.ticket_range, told)

    # ---- instead of what devices do alone

    def _end_upload(self, device: ImaginaryDevice, update: Update, given_up: bool) -> None:
        place = self.places.get(device.name)
        if place is None:
            super()._end_upload(device, update, given_up)
        elif device.working == update.ticket:
            device.working = 0
            boss = self._boss_of(device, range_of(update.ticket))
            if boss is not None and boss.engine is not None and (not given_up or device.name == place.group.head):
                boss.engine.update(update, self.clock.now())

    def _join(self, device: ImaginaryDevice) -> None:
        self.engine.join(self._info(device.name), self.clock.now(), self.from_server.get(device.name, 0))

    def _beat(self, device: ImaginaryDevice) -> None:
        self._return_if_gone(device)
        place, now = self.places.get(device.name), self.clock.now()
        held, finished, trains = device.downloading or device.working, device.finished, self.from_server[device.name]
        beat = Heartbeat(device=device.name, state="", ticket=held, finished=finished, trains=trains)
        if place is None:
            self.engine.beat(beat, now)
        else:
            self._beat_in_cluster(device, place, beat)
        self._later(self._beat_seconds, device, lambda: self._beat(device))

    def _beat_in_cluster(self, device: ImaginaryDevice, place: Place, beat: Heartbeat) -> None:
        now, is_head = self.clock.now(), place.group.head == device.name
        if is_head:
            self._tell_books(device, place)
        above = place.held if is_head else 0, place.finished if is_head else 0
        self.engine.beat(
            Heartbeat(device=beat.device, state="", ticket=above[0], finished=above[1], trains=beat.trains), now
        )
        boss = self._boss_of(device, place.group.ticket_range)
        if boss is None or is_head:
            return
        self._greet(device, place.group.ticket_range)
        if boss.engine is not None:
            within = Heartbeat(
                device=beat.device, state="", ticket=beat.ticket, finished=beat.finished, trains=place.trains
            )
            boss.engine.beat(within, now)
