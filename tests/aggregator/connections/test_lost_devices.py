"""When a silent device is lost: not before the aggregator has read what it received."""

from __future__ import annotations

from typing import cast

import pytest

from aggregator.connections import lost_devices
from aggregator.connections.lost_devices import LostDevices
from aggregator.connections.peers import Peers
from aggregator.connections.presence import PresenceTracker
from aggregator.connections.scripted_deaths import ScriptedDeaths
from testbed.common.clock import WallClock

TIMEOUT = 3.0


class NoPeers:
    """Peers that have never said hello: each silent device is lost at once."""

    def __init__(self) -> None:
        self.hellos: dict[str, object] = {}


@pytest.fixture
def lost() -> LostDevices:
    found = LostDevices(cast(Peers, NoPeers()), PresenceTracker(TIMEOUT), ScriptedDeaths([], lambda event: None))
    found.note_message("a", 0.0)
    return found


def names(lost: LostDevices, now: float) -> list[str]:
    return [device for device, _ in lost.find(now, WallClock(0.0))]


def test_no_device_is_silent_while_messages_wait_to_be_read(lost: LostDevices) -> None:
    assert names(lost, TIMEOUT + 1.0) == []
    lost.note_message("a", TIMEOUT + 1.1)  # its heartbeat was among them
    lost.note_all_read()
    assert names(lost, TIMEOUT + 1.2) == []


def test_a_device_is_lost_if_nothing_of_it_was_there_to_be_read(lost: LostDevices) -> None:
    lost.note_all_read()
    assert names(lost, TIMEOUT + 1.0) == ["a"]


def test_all_messages_must_have_been_read_since_the_last_search(lost: LostDevices) -> None:
    lost.note_all_read()
    assert names(lost, TIMEOUT - 1.0) == []
    assert names(lost, TIMEOUT + 1.0) == []
    lost.note_all_read()
    assert names(lost, TIMEOUT + 1.1) == ["a"]


def test_an_ended_process_is_reported_while_messages_wait(lost: LostDevices, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_devices.ExitWatch, "ended", lambda watch: ["a"])
    assert names(lost, 0.1) == ["a"]
