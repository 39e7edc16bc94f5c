"""A device in a cluster, over real sockets: as a member, as the head, and when that changes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from devices.cluster.membership import Membership
from devices.cluster.message_ends import SocketClusterLinks
from devices.device import Device
from devices.device_config import DeviceConfig
from testbed.emulation.faults import PlannedSuspension
from testbed.history import trace
from testbed.profile.schema import Direction
from testbed.wire.codec import decode_or_log
from testbed.wire.messages import HeadReport, Heartbeat, JoinCluster, Message, SendGradient, Train, Update
from testbed.wire.sockets import Peer
from testbed.wire.ticket_ranges import first_ticket, range_of
from testbed.wire.training_job import Job
from tests.aggregator.strategies.by_hand import vector
from tests.devices.parts import SPEC, FakeTraining, FixedTimetable, kind_of

PATIENCE = 120.0
NAMES = ("head", "one", "two")
JOB = Job(steps=2, batch=32)


class Place:
    """A device, its role in a cluster, and its head reports."""

    def __init__(
        self, name: str, folder: Path, index: int, timetable: FixedTimetable | None = None, **traits: Any
    ) -> None:
        plain: dict[str, Any] = {"up": Direction(), "down": Direction()}
        spec = replace(SPEC, name=name, index=index, **plain | traits)
        config = DeviceConfig(
            spec=spec, cores=(0,), endpoint="", seed=1, dilation=1.0, heartbeat_seconds=1.0, job=JOB, heads=str(folder)
        )
        self.device = Device(spec, timetable or FixedTimetable(), 64, FakeTraining())
        self.links = SocketClusterLinks(folder, 2)
        self.cluster = Membership(config, self.links, self.device, lead=0.0)
        self.reports: list[HeadReport] = []

    def live(self, now: float, *, intercepted: bool = True) -> None:
        self.device.advance(now)
        while self.device.wants_step(now):
            self.device.step()
            self.device.stepped(now)
            self.device.advance(now)
        self.cluster.advance(now)
        for update in self.device.outbox:
            assert self.cluster.intercept(update) == intercepted
        self.device.outbox.clear()
        self.cluster.send_heartbeat_to_head()
        self.reports += self.cluster.head_reports()

    @property
    def events(self) -> list[trace.HeadEvent]:
        return [event for report in self.reports for event in report.events]

    @property
    def tickets(self) -> list[tuple[str, int]]:
        return [(event.device, event.ticket) for event in self.events if isinstance(event, trace.Dispatched)]


@pytest.fixture
def places(tmp_path: Path) -> Iterator[dict[str, Place]]:
    found = {name: Place(name, tmp_path, index) for index, name in enumerate(NAMES)}
    yield found
    for place in found.values():
        place.cluster.leave()


def group(ticket_range: int, head: str, quorum: int = 3, members: tuple[str, ...] = NAMES) -> JoinCluster:
    return JoinCluster(
        ticket_range=ticket_range, head=head, quorum=quorum, members=tuple((name, 64, 5) for name in members)
    )


def model_for_cluster(ticket: int, version: int = 4) -> Train:
    return Train(ticket=ticket, number=0, version=version, sent=0.0, job=JOB, model=vector(1.0, 2.0), for_cluster=True)


def live_until(places: dict[str, Place], done: Callable[[], bool], now: float = 0.0) -> float:
    """Advance the emulated time, and give the sockets time, until ``done`` returns True."""
    limit = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < limit
        now += 0.05
        for place in places.values():
            place.live(now)
    return now


def test_a_cluster_works_and_its_head_sends_one_result(places: dict[str, Place]) -> None:
    for place in places.values():
        place.cluster.enter(group(2, "head"), 0.0)
    head = places["head"]
    head.cluster.receive_model(model_for_cluster(9), 0.0)
    now = live_until(places, lambda: bool(head.cluster.outbox))
    [result] = head.cluster.outbox
    assert (result.ticket, result.version, result.samples, len(result.merged)) == (9, 4, 3 * 64, 3)
    assert sorted(device for device, _ in head.tickets) == sorted(NAMES)
    assert {range_of(ticket) for _, ticket in head.tickets} == {2}
    assert not places["one"].cluster.outbox
    # heartbeats of members show the aggregator no tickets of the head
    heartbeat = places["one"].cluster.for_aggregator(places["one"].device.heartbeat())
    assert (heartbeat.ticket, heartbeat.finished) == (0, 0)
    assert {kind_of(event) for event in heartbeat.events} >= {"downloaded", "trained"}
    # the head's own jobs go over no link
    own = {
        kind_of(event)
        for event in head.cluster.for_aggregator(head.device.heartbeat()).events
        if not isinstance(event, trace.Scripted) and event.ticket != 9
    }
    assert own == {"trained"}

    head.cluster.outbox.clear()
    head.cluster.receive_model(model_for_cluster(10, version=5), now)
    live_until(places, lambda: bool(head.cluster.outbox), now)
    assert len(head.tickets) == 6


def test_a_head_ignores_models_without_a_job(places: dict[str, Place]) -> None:
    head = places["head"]
    head.cluster.enter(group(2, "head", quorum=1, members=("head",)), 0.0)
    head.cluster.receive_model(msgspec.structs.replace(model_for_cluster(9), job=None), 0.0)
    head.live(1.0)
    assert head.tickets == []
    head.cluster.receive_model(model_for_cluster(10), 1.0)
    live_until({"head": head}, lambda: bool(head.cluster.outbox), 1.0)
    assert [result.ticket for result in head.cluster.outbox] == [10]


def test_with_another_head_the_cluster_starts_over_and_old_updates_are_discarded(places: dict[str, Place]) -> None:
    for place in places.values():
        place.cluster.enter(group(2, "head"), 0.0)
    places["head"].cluster.receive_model(model_for_cluster(9), 0.0)
    now = live_until(places, lambda: len(places["head"].tickets) == 3)
    for place in places.values():
        place.cluster.enter(group(3, "one"), now)
    places["one"].cluster.receive_model(model_for_cluster(12), now)
    live_until(places, lambda: bool(places["one"].cluster.outbox), now)
    [result] = places["one"].cluster.outbox
    assert {range_of(ticket) for ticket, _, _ in result.merged} == {3}
    assert not places["head"].cluster.outbox


def test_the_socket_of_a_head_is_removed_when_its_term_ends(places: dict[str, Place], tmp_path: Path) -> None:
    for term, head in enumerate(NAMES * 3, 2):
        for place in places.values():
            place.cluster.enter(group(term, head), 0.0)
        assert [path.name for path in tmp_path.iterdir()] == [f"head-{term}"]
    for place in places.values():
        place.cluster.leave()
    assert list(tmp_path.iterdir()) == []


def test_members_continue_although_their_head_is_silent(places: dict[str, Place]) -> None:
    """A head that does not listen delays nothing, heartbeats to the aggregator included."""
    one = places["one"]
    one.cluster.enter(group(2, "head"), 0.0)
    one.device.receive(Train(ticket=first_ticket(2) + 1, version=0, sent=0.0, job=JOB, model=vector(0.0, 0.0)), 0.0)
    for tick in range(40):
        one.live(tick * 0.1)
    assert one.device.state.value == "idle"
    assert one.cluster.due() < 4.2  # it tries again
    one.cluster.enter(group(3, "two"), 4.0)
    places["two"].cluster.enter(group(3, "two"), 4.0)
    places["two"].cluster.receive_model(model_for_cluster(9), 4.0)
    live_until({"one": one, "two": places["two"]}, lambda: len(places["two"].tickets) >= 2, 4.0)


def test_a_head_does_not_wait_for_devices_that_are_no_longer_members(places: dict[str, Place]) -> None:
    for place in places.values():
        place.cluster.enter(group(2, "head"), 0.0)
    head, one = places["head"], places["one"]
    head.cluster.receive_model(model_for_cluster(9), 0.0)
    both = {"head": head, "one": one}
    now = live_until(both, lambda: len(head.tickets) >= 2)
    now = live_until(both, lambda: one.device.state.value == "idle", now)
    assert not head.cluster.outbox
    head.cluster.enter(group(2, "head", quorum=2, members=("head", "one")), now)
    live_until(both, lambda: bool(head.cluster.outbox), now)
    assert len(head.cluster.outbox[0].merged) == 2


def test_updates_in_a_result_that_is_given_up_are_reported_as_lost(tmp_path: Path) -> None:
    head = Place("head", tmp_path, 0, up=Direction(drop=0.999999), on_drop="give_up")
    head.cluster.enter(group(2, "head", quorum=1, members=("head",)), 0.0)
    head.cluster.receive_model(model_for_cluster(9), 0.0)
    live_until({"head": head}, lambda: any(isinstance(event, trace.Lost) for event in head.events))
    [lost] = [event for event in head.events if isinstance(event, trace.Lost)]
    assert [(lost.device, lost.ticket)] == head.tickets
    assert lost.reason == "its head's upload was given up"
    heartbeat = head.cluster.for_aggregator(head.device.heartbeat())
    assert (heartbeat.ticket, heartbeat.finished) == (0, 9)
    head.cluster.leave()


def test_at_a_clustering_devices_send_the_updates_that_they_have_and_carry_their_jobs(places: dict[str, Place]) -> None:
    for place in places.values():
        place.cluster.enter(group(2, "head"), 0.0)
    head, two = places["head"], places["two"]
    head.cluster.enter(group(2, "head", quorum=4), 0.0)  # all updates wait at the head
    head.cluster.receive_model(model_for_cluster(9), 0.0)
    now = live_until(places, lambda: sum(isinstance(event, trace.Arrived) for event in head.events) == 3)
    carried = dict(head.tickets)
    for ticket, place in enumerate(places.values(), 11):
        place.cluster.receive_signal(SendGradient(ticket=ticket, number=0, sent=now), now)
        heartbeat = place.cluster.for_aggregator(place.device.heartbeat())
        assert heartbeat.ticket == ticket
    now = live_until(places, lambda: all(place.cluster.outbox for place in places.values()), now)
    for ticket, place in enumerate(places.values(), 11):
        [gradient] = place.cluster.outbox
        assert (gradient.ticket, gradient.version, gradient.merged) == (ticket, 4, ())
        heartbeat = place.cluster.for_aggregator(place.device.heartbeat())
        assert (heartbeat.ticket, heartbeat.finished) == (0, ticket)
        place.cluster.outbox.clear()
    jobs = tuple(carried.items())
    for name, place in places.items():
        own = jobs if name == "two" else tuple(job for job in jobs if job[0] == name)
        place.cluster.enter(msgspec.structs.replace(group(3, "two"), carried=own, sent=now), now)
    two.cluster.receive_model(model_for_cluster(14, version=7), now)
    live_until(places, lambda: bool(two.cluster.outbox), now)
    [result] = two.cluster.outbox
    assert sorted((ticket, staleness) for ticket, _, staleness in result.merged) == sorted(
        (ticket, 3) for ticket in carried.values()
    )
    assert not two.tickets  # nobody was given a new job
    assert {event.ticket for event in two.events if isinstance(event, trace.Arrived)} == set(carried.values())
    assert not head.cluster.outbox


def test_no_heartbeat_overtakes_an_update_that_is_carried(
    places: dict[str, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, ticket = places["one"], first_ticket(2) + 1
    one.cluster.enter(group(2, "head"), 0.0)
    one.device.receive(Train(ticket=ticket, version=0, sent=0.0, job=JOB, model=vector(0, 0), kept=True), 0.0)
    one.live(0.0)
    one.device.advance(1.0)
    while one.device.wants_step(1.0):
        one.device.step()
        one.device.stepped(1.0)
    sent: list[Message | None] = []
    monkeypatch.setattr(Peer, "send", lambda self, frames, timeout=0.0: sent.append(decode_or_log(frames, 2)))
    one.cluster.enter(msgspec.structs.replace(group(3, "two"), carried=(("one", ticket),)), 1.0)
    one.device.advance(1.0)  # the update is handed over, and its upload has ended
    one.cluster.advance(1.0)
    assert (one.device.state.value, len(one.device.outbox), sent) == ("idle", 1, [])
    one.live(1.0)
    assert [type(message) for message in sent] == [Update, Heartbeat]


def test_a_suspended_device_sends_its_gradient_when_it_continues(tmp_path: Path) -> None:
    timetable = FixedTimetable(suspensions={1: PlannedSuspension(at=0.5, seconds=4.0)})
    place = Place("one", tmp_path, 1, timetable, up=Direction(delay=0.5))
    for number, moment in ((0, 0.0), (1, 2.0)):
        train = Train(ticket=number + 1, number=number, version=0, sent=moment, job=JOB, model=vector(0, 0), kept=True)
        place.device.receive(train, moment)
        place.device.advance(moment)
        for tick in range(31):
            place.live(moment + tick * 0.05, intercepted=False)
    assert place.device.state.value == "suspended"
    place.cluster.receive_signal(SendGradient(ticket=5, number=0, sent=3.6), 3.6)
    place.live(3.65, intercepted=False)
    assert place.cluster.for_aggregator(place.device.heartbeat()).ticket == 5
    assert place.cluster.due() == math.inf
    woken = place.device.due()
    place.live(woken, intercepted=False)
    assert place.cluster.due() == woken + 0.5
    place.live(woken + 0.5, intercepted=False)
    assert [(update.ticket, update.due) for update in place.cluster.outbox] == [(5, woken + 0.5)]


def test_a_head_reports_its_own_carried_job_as_lost_if_it_does_not_have_it(tmp_path: Path) -> None:
    head = Place("head", tmp_path, 0)
    carried = msgspec.structs.replace(
        group(3, "head", quorum=1, members=("head",)), carried=(("head", first_ticket(2) + 4),)
    )
    head.cluster.enter(carried, 1.0)
    head.live(1.0)
    [lost] = head.events
    assert isinstance(lost, trace.Lost)
    assert (lost.ticket, lost.reason) == (first_ticket(2) + 4, "its device does not have it any more")
    head.cluster.receive_model(model_for_cluster(9), 1.0)
    live_until({"head": head}, lambda: bool(head.cluster.outbox), 1.0)
    head.cluster.leave()
