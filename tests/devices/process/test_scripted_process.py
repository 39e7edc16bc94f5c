"""The process of a device that the script kills, or brings back."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from devices.device_config import Rejoining
from devices.process.main import DeviceProcess
from testbed.profile.schema import ScriptedEvent
from testbed.wire.codec import Buffer, encode
from testbed.wire.messages import Heartbeat, Hello, Message, Stop, Update
from tests.devices.parts import Time
from tests.devices.process.test_main import CONFIG, LINKS, ScriptedPeer, job, live, time
from tests.devices.tiny import TinyTask

__all__ = ["time"]  # a fixture


def event(at: float, do: str, seconds: float | None = None) -> ScriptedEvent:
    return ScriptedEvent(at=at, device="rpi-1", do=do, seconds=seconds)


PACED: dict[str, Any] = {"throttle": "pace", "seconds_per_sample": 0.125, **LINKS}
"""Five samples a step: a job of two of them ends at 1.5, and its upload at 2."""


def kinds(peer: ScriptedPeer) -> list[str]:
    return [
        event["kind"] for message in peer.told if isinstance(message, (Update, Heartbeat)) for event in message.events
    ]


def test_a_killed_device_says_a_last_word_and_then_nothing_whatever_it_hears(time: Time) -> None:
    peer = ScriptedPeer(time, job(time), updates=0, last=5.0)
    live(peer, script=(event(1.0, "kill"),), **PACED)
    last = peer.told[-1]
    assert isinstance(last, Heartbeat)
    assert (last.state, last.ticket) == ("killed", 0)
    assert peer.moments[-1] == pytest.approx(1.0, abs=1e-3)
    assert kinds(peer) == ["downloaded", "abandoned"]
    assert peer.of(Update) == []


def test_an_update_that_was_due_before_the_death_is_told_before_the_last_word(time: Time) -> None:
    peer = ScriptedPeer(time, job(time), updates=0, last=5.0)
    live(peer, script=(event(2.0, "kill"),), **PACED)
    [(_, update)] = peer.of(Update)
    assert update.due == 2.0
    assert kinds(peer) == ["downloaded", "trained", "uploaded"]


def test_a_device_that_is_stopped_when_it_is_killed_is_awake_for_its_last_word(
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
    """Hands each message out at its moment, in host seconds since the start."""

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


def test_a_device_that_was_forked_before_its_time_says_hello_at_its_time(time: Time) -> None:
    [welcome, train, stop] = job(time)
    train = msgspec.structs.replace(train, number=4)
    # the first Train is for who was killed
    peer = rejoin(time, 2.5, (0.5, train), (2.6, welcome), (2.7, train), (3.0, stop))
    assert isinstance(peer.told[0], Hello)
    assert peer.moments[0] == pytest.approx(2.5, abs=1e-3)
    assert peer.of(Heartbeat)[-1][1].trains == 1
    told = [event for message in peer.told if isinstance(message, (Update, Heartbeat)) for event in message.events]
    assert {event["job"] for event in told if "job" in event} == {4}


def test_a_device_whose_fork_took_too_long_says_hello_at_once(time: Time) -> None:
    [welcome, _, stop] = job(time)
    peer = rejoin(time, -3.0, (0.1, welcome), (0.2, stop))
    assert isinstance(peer.told[0], Hello)
    assert peer.moments[0] == pytest.approx(0.0, abs=1e-3)


def test_a_device_that_waits_for_its_time_when_the_run_ends_only_says_goodbye(time: Time) -> None:
    peer = rejoin(time, 100.0, (3.0, Stop(reason="enough")))
    assert [(type(message), message.state) for message in peer.told if isinstance(message, Heartbeat)] == [
        (Heartbeat, "stopped")
    ]
    assert peer.moments == pytest.approx([3.0], abs=1e-3)
