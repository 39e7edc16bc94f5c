from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence

import numpy as np
import pytest

from devices.process import DeviceProcess
from testbed.messages import Beat, Hello, Job, Message, Refused, Stop, Train, Update, Welcome
from testbed.profile import Direction
from testbed.roles import DeviceConfig
from testbed.sockets import Unreachable
from testbed.wire import Buffer, decode, encode
from tests.devices.parts import SPEC
from tests.devices.tiny import TinyTask

CONFIG = DeviceConfig(
    spec=dataclasses.replace(SPEC, seconds_per_sample=None, up=Direction(), down=Direction()),
    core=0,
    endpoint="",
    seed=0,
    beat=0.05,
)


class ScriptedPeer:
    """The device's end of the transport: hands out a script, and cannot take the first ``blocked`` messages.

    The script goes on with its last entry, the end, only when an update has got through.
    """

    def __init__(self, script: Sequence[Message], blocked: int = 0) -> None:
        self._script, self._blocked = list(script), blocked
        self.told: list[Message] = []

    def send(self, frames: Sequence[Buffer], timeout: float = 0.0) -> None:
        message = decode(frames, TinyTask.SIZE)
        if isinstance(message, (Update, Beat)) and self._blocked > 0:
            self._blocked -= 1
            raise Unreachable
        self.told.append(message)

    def receive(self, timeout: float) -> list[Buffer] | None:
        waiting = len(self._script) == 1 and not any(isinstance(message, Update) for message in self.told)
        return None if waiting or not self._script else encode(self._script.pop(0))


def live(peer: ScriptedPeer) -> None:
    DeviceProcess(CONFIG, TinyTask(), peer, cores=(3,)).run()  # type: ignore[arg-type]


def job() -> list[Message]:
    train = Train(ticket=1, version=0, job=Job(steps=2), model=np.zeros(TinyTask.SIZE, dtype=np.float32))
    return [Welcome(origin=time.monotonic()), train, Stop(reason="enough")]


@pytest.mark.parametrize("blocked", [0, 1, 4])
def test_events_outlast_messages_that_the_transport_could_not_take(blocked: int) -> None:
    peer = ScriptedPeer(job(), blocked)
    live(peer)
    events = [event["kind"] for message in peer.told if isinstance(message, (Update, Beat)) for event in message.events]
    assert events == ["downloaded", "trained", "uploaded"]
    assert sum(isinstance(message, Update) for message in peer.told) == 1


def test_no_heartbeat_overtakes_an_update_that_waits() -> None:
    peer = ScriptedPeer(job(), blocked=4)
    live(peer)
    kinds = [type(message) for message in peer.told]
    before = peer.told[: kinds.index(Update)]
    assert [beat for beat in before if isinstance(beat, Beat) and beat.finished == 1] == []


def test_a_device_says_hello_and_farewell() -> None:
    peer = ScriptedPeer(job())
    live(peer)
    hello, last = peer.told[0], peer.told[-1]
    assert isinstance(hello, Hello)
    assert (hello.device, hello.cores, hello.samples) == ("rpi-1", (3,), 5)
    assert isinstance(last, Beat)
    assert (last.state, last.finished) == ("stopped", 1)


def test_a_run_that_ends_before_it_begins_is_left_in_peace() -> None:
    peer = ScriptedPeer([Stop(reason="interrupted"), Stop(reason="interrupted")])
    live(peer)
    assert [type(message) for message in peer.told] == [Hello, Beat]


def test_a_refused_device_says_why_it_ends() -> None:
    peer = ScriptedPeer([Refused(reason="unknown device"), Stop(reason="")])
    with pytest.raises(RuntimeError, match="refused rpi-1: unknown device"):
        live(peer)
