"""When a silent device is lost: not before the aggregator has read what was sent to it."""

from __future__ import annotations

from typing import cast

import pytest

from aggregator.connections import lost_devices
from aggregator.connections.lost_devices import KernelProcesses, LostDevices
from aggregator.connections.peers import Peers
from aggregator.connections.presence import PresenceTracker
from aggregator.connections.scripted_deaths import ScriptedDeaths
from testbed.common.clock import WallClock

TIMEOUT = 3.0


class NoPeers:
    """Peers that have never said hello: each silent device is lost at once."""

    def __init__(self) -> None:
        self.hellos: dict[str, object] = {}
        self.unread = False

    def has_unread(self) -> bool:
        return self.unread


@pytest.fixture(autouse=True)
def transport_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_devices, "is_another_thread_runnable", lambda: False)


@pytest.fixture
def peers() -> NoPeers:
    return NoPeers()


@pytest.fixture
def lost(peers: NoPeers) -> LostDevices:
    found = LostDevices(
        KernelProcesses(cast(Peers, peers)), PresenceTracker(TIMEOUT), ScriptedDeaths([], lambda event: None)
    )
    found.note_message("a", 0.0)
    return found


def names(lost: LostDevices, now: float) -> list[str]:
    return [device for device, _ in lost.find(now, WallClock(0.0))]


def test_a_device_is_lost_if_nothing_of_it_was_there_to_be_read(lost: LostDevices) -> None:
    assert names(lost, TIMEOUT - 1.0) == []
    assert names(lost, TIMEOUT + 1.0) == ["a"]
    assert names(lost, TIMEOUT + 9.0) == []


def test_no_device_is_silent_while_messages_wait_to_be_read(lost: LostDevices, peers: NoPeers) -> None:
    peers.unread = True
    assert [names(lost, TIMEOUT + 1.0 + search) for search in range(3)] == [[]] * 3
    peers.unread = False
    lost.note_message("a", TIMEOUT + 3.1)  # its heartbeat was among them
    assert [names(lost, TIMEOUT + 3.2 + search) for search in range(2)] == [[]] * 2


def test_no_device_is_silent_while_the_thread_of_the_transport_waits_for_a_core(
    lost: LostDevices, monkeypatch: pytest.MonkeyPatch
) -> None:
    runnable = iter([True, True, False])
    monkeypatch.setattr(lost_devices, "is_another_thread_runnable", lambda: next(runnable))
    found = [names(lost, TIMEOUT + 1.0 + search) for search in range(3)]  # the queue is empty: they are in the socket
    assert found == [[], [], ["a"]]


def test_the_queue_is_looked_at_after_the_thread_that_fills_it(
    lost: LostDevices, peers: NoPeers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deliver_and_sleep() -> bool:
        peers.unread = True
        return False

    monkeypatch.setattr(lost_devices, "is_another_thread_runnable", deliver_and_sleep)
    assert names(lost, TIMEOUT + 1.0) == []


def test_an_ended_process_is_reported_while_messages_wait(
    lost: LostDevices, peers: NoPeers, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers.unread = True
    monkeypatch.setattr(lost_devices.ExitWatch, "ended", lambda watch: ["a"])
    assert names(lost, 0.1) == ["a"]
