"""The process of a device that the script kills, or that rejoins."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from devices.device_config import Rejoining
from devices.process.main import DeviceProcess
from testbed.history.trace import TransferEvent
from testbed.profile.schema import ScriptedEvent
from testbed.wire.codec import Buffer, encode
from testbed.wire.messages import Heartbeat, Hello, Message, Stop, Update
from tests.devices.parts import Time, kind_of
from tests.devices.process.test_main import CONFIG, LINKS, ScriptedPeer, job, live, time
from tests.devices.tiny import TinyTask

__all__ = ["time"]  # a fixture


def event(at: float, do: str, seconds: float | None = None) -> ScriptedEvent:
    return ScriptedEvent(at=at, device="rpi-1", do=do, seconds=seconds)


PACED: dict[str, Any] = {"throttle": "pace", "seconds_per_sample": 0.125, **LINKS}
"""Five samples a step: a job of two of them ends at 1.5, and its upload at 2."""


def kinds(peer: ScriptedPeer) -> list[str]:
    return [
        kind_of(event) for message in peer.sent if isinstance(message, (Update, Heartbeat)) for event in message.events
    ]


def test_a_killed_device_sends_a_last_heartbeat_and_then_nothing(time: Time) -> None:
    peer = ScriptedPeer(time, job(time), updates=0, last=5.0)
    live(peer, script=(event(1.0, "kill"),), **PACED)
    last = peer.sent[-1]
    assert isinstance(last, Heartbeat)
    assert (last.state, last.ticket) == ("killed", 0)
    assert peer.moments[-1] == pytest.approx(1.0, abs=1e-3)
    assert kinds(peer) == ["downloaded", "abandoned"]
    assert peer.of(Update) == []


def test_an_update_that_was_due_before_the_death_is_sent_before_the_last_heartbeat(time: Time) -> None:
    peer = ScriptedPeer(time, job(time), updates=0, last=5.0)
    live(peer, script=(event(2.0, "kill"),), **PACED)
    [(_, update)] = peer.of(Update)
    assert update.due == 2.0
    assert kinds(peer) == ["downloaded", "trained", "uploaded"]


def test_a_device_that_is_stopped_when_it_is_killed_wakes_for_its_last_heartbeat(
    time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen: list[float] = []

    def freeze(seconds: float) -> None:
        frozen.append(seconds)
        time.sleep(seconds)

    monkeypatch.setattr("devices.process.main.freeze", freeze)
    peer = ScriptedPeer(time, job(time), updates=0, last=5.0)
    script = (event(1.0, "suspend", 100.0), event(3.0, "kill"))
    live(peer, script=script, suspend_by="signal", **PACED)
    assert frozen == pytest.approx([2.0], abs=0.06)
    assert kinds(peer) == ["downloaded", "scripted", "suspended", "abandoned"]
    assert peer.moments[-1] == pytest.approx(3.0, abs=1e-3)


# ---- rejoining


class TimedPeer(ScriptedPeer):
    """Hands out each message at its moment, in host seconds since the start."""

    def __init__(self, time: Time, script: Sequence[tuple[float, Message]]) -> None:
        super().__init__(time, [message for _, message in script])
        self._due = [moment for moment, _ in script]

    def receive(self, timeout: float) -> list[Buffer] | None:
        limit = self._time.now + timeout
        if not self._due or self._began + self._due[0] > limit:
            self._time.now = limit
            return None
        self._time.now = max(self._time.now, self._began + self._due.pop(0))
        return encode(self._script.pop(0))


def rejoin(time: Time, at: float, *script: tuple[float, Message]) -> TimedPeer:
    peer, rejoining = TimedPeer(time, script), Rejoining(at=at, origin=time.now)
    config = dataclasses.replace(CONFIG, rejoining=rejoining)
    DeviceProcess(config, TinyTask(), peer, cores=(3,)).run()  # type: ignore[arg-type]
    return peer


def test_a_device_that_was_forked_early_says_hello_at_its_moment(time: Time) -> None:
    [welcome, train, stop] = job(time)
    train = msgspec.structs.replace(train, number=4)
    # the first Train is for the killed process
    peer = rejoin(time, 2.5, (0.5, train), (2.6, welcome), (2.7, train), (3.0, stop))
    assert isinstance(peer.sent[0], Hello)
    assert peer.moments[0] == pytest.approx(2.5, abs=1e-3)
    assert peer.of(Heartbeat)[-1][1].trains == 1
    events = [event for message in peer.sent if isinstance(message, (Update, Heartbeat)) for event in message.events]
    assert {event.job for event in events if isinstance(event, TransferEvent)} == {4}


def test_a_device_whose_fork_took_too_long_says_hello_at_once(time: Time) -> None:
    [welcome, _, stop] = job(time)
    peer = rejoin(time, -3.0, (0.1, welcome), (0.2, stop))
    assert isinstance(peer.sent[0], Hello)
    assert peer.moments[0] == pytest.approx(0.0, abs=1e-3)


def test_a_device_that_waits_to_rejoin_when_the_run_ends_sends_only_a_last_heartbeat(time: Time) -> None:
    peer = rejoin(time, 100.0, (3.0, Stop(reason="enough")))
    assert [(type(message), message.state) for message in peer.sent if isinstance(message, Heartbeat)] == [
        (Heartbeat, "stopped")
    ]
    assert peer.moments == pytest.approx([3.0], abs=1e-3)
