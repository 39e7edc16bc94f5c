"""A real device that reads its messages late, under the real aggregator, on one manual clock: no Train is sent twice.

A process that was frozen or waited long for its core sends a heartbeat before it reads what has arrived meanwhile.
"""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from devices.device import Device
from testbed.fidelity.evidence import gather
from testbed.fidelity.link_checks import causality
from testbed.fidelity.link_evidence import LinkEvidence
from testbed.history import trace
from testbed.profile.schema import Direction
from testbed.runs.results.certificate import Verdict
from testbed.wire.codec import Buffer, decode
from testbed.wire.messages import Stop, Train, TrainsSent
from testbed.wire.sockets import PeerUnreachable
from tests.aggregator.process.test_main import World, folder, of, run, time
from tests.devices.parts import SPEC, FakeTraining, FixedTimetable, Time
from tests.devices.tiny import TinyTask

__all__ = ["folder", "time"]  # fixtures

TURN = 0.025
HEARTBEAT = 0.1
STALL = 1.0
SETTINGS = (f"presence.heartbeat={HEARTBEAT}", "presence.timeout=0.5", "stop.seconds=6.0", "training.steps=1")
SPECS = {
    name: dataclasses.replace(SPEC, name=name, seconds_per_sample=1 / 1280, up=link, down=link)
    for name, link in {"host-1": Direction(delay=0.03), "host-2": Direction(delay=0.03)}.items()
}


class SlowReader(World):
    """The peers of the aggregator. host-1 is a real device, which reads one message at each of its turns.

    After its first update that is sent at ``stalls_at`` or later it has no turn for a second, so that the next Train
    waits unread. The transport refuses the messages to it whose numbers are in ``refused``.
    """

    def __init__(self, time: Time, stalls_at: float = math.inf, refused: Sequence[int] = ()) -> None:
        super().__init__(time)
        self._stalls_at, self._refused, self._sent = stalls_at, refused, 0
        self._device = Device(SPECS["host-1"], FixedTimetable(), samples=128, trainer=FakeTraining())
        self._mail: deque[Train | TrainsSent] = deque()
        self._trains = 0
        self._turn, self._next_heartbeat = TURN, HEARTBEAT
        self._over = False

    def send(self, peer: str, frames: Sequence[Buffer]) -> None:
        message = decode(frames, TinyTask.SIZE)
        if peer == "host-1" and isinstance(message, (Train, TrainsSent)):
            self._sent += 1
            if self._sent in self._refused:
                raise PeerUnreachable("its queue is full")
            self._mail.append(message)
            self.said.append((peer, message))
            return
        self._over = self._over or isinstance(message, Stop)
        super().send(peer, frames)

    def receive(self, timeout: float) -> tuple[str, list[Buffer]] | None:
        limit = self.time.now + timeout
        while not self._over and self._origin + self._turn <= limit:
            if self._queue and self._queue[0][0] <= self._origin + self._turn:
                break
            self._turn += TURN if self._act(self._turn) else STALL
        return super().receive(max(0.0, limit - self.time.now))

    def _act(self, now: float) -> bool:
        """Do what the loop of a device process does once: act, send, compute, and read. Return False if it stalls."""
        device = self._device
        device.advance(now)
        stalls = bool(device.outbox) and now >= self._stalls_at
        for update in device.outbox:
            self.at(now, "host-1", replace(update, trains=self._trains, events=device.take_events()))
        device.outbox.clear()
        if stalls:
            self._stalls_at = math.inf
            return False
        if now >= self._next_heartbeat:
            self._next_heartbeat = now + HEARTBEAT
            self.at(now, "host-1", replace(device.heartbeat(), trains=self._trains))
        if device.wants_step(now):
            device.step()
            device.stepped(now)
        if self._mail:
            message = self._mail.popleft()
            if isinstance(message, Train):
                self._trains += 1
                device.receive(message, now)
            else:
                self._trains = max(self._trains, message.trains)
        return True


def check(events: Sequence[trace.Event], reason: str) -> None:
    """The device left for this reason and came back, was sent each Train once, and got none before it was sent."""
    assert [event.reason for event in of(trace.Left, events)][:1] == [reason]
    assert len([event for event in of(trace.Joined, events) if event.device == "host-1"]) == 2
    back = of(trace.Joined, events)[-1].t
    assert len([event for event in of(trace.Aggregated, events) if event.t > back]) > 10
    assert of(trace.Resent, events) == []
    links = LinkEvidence(list(SPECS.values()))
    evidence = gather(events, links.note)
    links.add_up()
    found = causality(evidence, links)
    assert (found.verdict, found.figures) == (Verdict.PASS, {"early": 0, "out_of_order": 0})


@pytest.fixture(autouse=True)
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent process does not compute."""
    monkeypatch.setattr("aggregator.connections.lost_devices.is_computing", lambda pid: False)


def keep_alive(world: World, device: str) -> None:
    for tenth in range(1, 70):
        world.heartbeat(device, tenth / 10 - 0.01, state="training", ticket=2, trains=1)


def test_a_device_that_was_silent_is_sent_each_train_once_although_it_reads_an_earlier_one_first(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = SlowReader(time, stalls_at=1.0)
    keep_alive(world, "host-2")
    check(run(world, folder, monkeypatch, *SETTINGS), "it was silent for too long")


def test_a_device_whose_queue_was_full_is_sent_each_train_once_when_it_is_back(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = SlowReader(time, refused=(5,))
    keep_alive(world, "host-2")
    check(run(world, folder, monkeypatch, *SETTINGS), "it cannot be reached")
