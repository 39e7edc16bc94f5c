"""The process of a device, with a scripted transport and a clock that moves only during a wait."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Generator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from devices.device_config import DeviceConfig
from devices.process import main
from devices.process.main import DeviceProcess
from testbed.common.clock import WallClock
from testbed.emulation.faults import timetable
from testbed.profile.schema import Direction
from testbed.wire.codec import Buffer, decode, encode
from testbed.wire.messages import Heartbeat, Hello, Message, Refused, Stop, Train, Update, Welcome
from testbed.wire.sockets import PeerUnreachable
from testbed.wire.training_job import Job
from tests.devices.parts import SPEC, Time, kind_of
from tests.devices.tiny import TinyTask

CONFIG = DeviceConfig(
    spec=dataclasses.replace(SPEC, throttle="none", seconds_per_sample=None, up=Direction(), down=Direction()),
    cores=(0,),
    endpoint="",
    seed=0,
    dilation=1.0,
    heartbeat_seconds=0.05,
    job=Job(),
)
LINKS: dict[str, Any] = {"up": Direction(delay=0.5), "down": Direction(delay=0.25)}


@pytest.fixture(autouse=True)
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    own = Time()
    monkeypatch.setattr("testbed.common.clock.time", own)
    return own


class ScriptedPeer:
    """The device's end of the transport: hands out a script, and refuses the first ``blocked`` messages.

    It hands out the last entry of the script, the end, only after ``updates`` updates and ``last`` seconds.
    """

    def __init__(
        self, time: Time, script: Sequence[Message], *, blocked: int = 0, updates: int = 1, last: float = 0.0
    ) -> None:
        self._time, self._began = time, time.now
        self._script, self._blocked, self._updates, self._last = list(script), blocked, updates, last
        self.sent: list[Message] = []
        self.moments: list[float] = []
        """Host seconds from the start to each message that was sent."""

    def send(self, frames: Sequence[Buffer], timeout: float = 0.0) -> None:
        message = decode(frames, TinyTask.SIZE)
        if isinstance(message, (Update, Heartbeat)) and self._blocked > 0:
            self._blocked -= 1
            raise PeerUnreachable
        self.sent.append(message)
        self.moments.append(self._time.now - self._began)

    def receive(self, timeout: float) -> list[Buffer] | None:
        ended = len(self.of(Update)) >= self._updates and self._time.now - self._began >= self._last
        if not self._script or (len(self._script) == 1 and not ended):
            self._time.sleep(timeout)
            return None
        return encode(self._script.pop(0))

    def of(self, kind: type[Message]) -> list[tuple[float, Any]]:
        return [(at, message) for at, message in zip(self.moments, self.sent, strict=True) if isinstance(message, kind)]


def live(peer: ScriptedPeer, dilation: float = 1.0, **changes: Any) -> None:
    config = dataclasses.replace(CONFIG, dilation=dilation, spec=dataclasses.replace(CONFIG.spec, **changes))
    DeviceProcess(config, TinyTask(), peer, cores=(3,)).run()  # type: ignore[arg-type]


def job(time: Time, ticket: int = 1, steps: int = 2) -> list[Message]:
    model = np.zeros(TinyTask.SIZE, dtype=np.float32)
    train = Train(ticket=ticket, version=0, sent=0.0, job=Job(steps=steps), model=model)
    return [Welcome(origin=time.now), train, Stop(reason="enough")]


# ---- messages


@pytest.mark.parametrize("blocked", [0, 1, 4])
def test_events_are_kept_when_the_transport_refuses_a_message(time: Time, blocked: int) -> None:
    peer = ScriptedPeer(time, job(time), blocked=blocked)
    live(peer)
    events = [
        kind_of(event) for message in peer.sent if isinstance(message, (Update, Heartbeat)) for event in message.events
    ]
    assert events == ["downloaded", "trained", "uploaded"]
    assert len(peer.of(Update)) == 1


def test_no_heartbeat_overtakes_an_update_that_waits(time: Time) -> None:
    peer = ScriptedPeer(time, job(time), blocked=4)
    live(peer)
    kinds = [type(message) for message in peer.sent]
    before = peer.sent[: kinds.index(Update)]
    assert [heartbeat for heartbeat in before if isinstance(heartbeat, Heartbeat) and heartbeat.finished == 1] == []


def test_a_device_sends_a_hello_and_a_last_heartbeat(time: Time) -> None:
    peer = ScriptedPeer(time, job(time))
    live(peer)
    hello, last = peer.sent[0], peer.sent[-1]
    assert isinstance(hello, Hello)
    assert (hello.device, hello.cores, hello.samples) == ("rpi-1", (3,), 5)
    assert isinstance(last, Heartbeat)
    assert (last.state, last.finished) == ("stopped", 1)


def test_a_run_that_ends_before_it_begins_gets_only_a_hello_and_a_heartbeat(time: Time) -> None:
    peer = ScriptedPeer(time, [Stop(reason="interrupted"), Stop(reason="interrupted")])
    live(peer)
    assert [type(message) for message in peer.sent] == [Hello, Heartbeat]


def test_a_refused_device_raises_an_error_with_the_reason(time: Time) -> None:
    peer = ScriptedPeer(time, [Refused(reason="unknown device"), Stop(reason="")])
    with pytest.raises(RuntimeError, match="refused rpi-1: unknown device"):
        live(peer)


class NoisyPeer(ScriptedPeer):
    """Hands out an invalid message before each valid one."""

    noise = True

    def receive(self, timeout: float) -> list[Buffer] | None:
        self.noise = not self.noise
        return super().receive(timeout) if self.noise else [b"\xc1"]


def test_an_invalid_message_is_ignored_and_logged_once(
    time: Time, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.wire.codec._logged", set())
    peer = NoisyPeer(time, job(time))
    live(peer)
    assert isinstance(peer.sent[0], Hello)
    assert len(peer.of(Update)) == 1
    assert capsys.readouterr().err.count("ignored an invalid message: unknown schema") == 1


# ---- moments


@pytest.mark.parametrize("dilation", [0.5, 1.0, 4.0])
def test_an_update_is_sent_50_host_milliseconds_before_it_is_due(time: Time, dilation: float) -> None:
    peer = ScriptedPeer(time, job(time))
    live(peer, dilation, **LINKS)
    [(moment, update)] = peer.of(Update)
    assert update.due == pytest.approx(0.75, abs=1e-4)
    assert moment == pytest.approx(0.75 * dilation - 0.05, abs=1e-4)


def test_a_paced_device_finishes_at_its_deadline(time: Time) -> None:
    peer = ScriptedPeer(time, job(time, steps=4))
    live(peer, throttle="pace", seconds_per_sample=0.125, **LINKS)  # five samples a step
    [(_, update)] = peer.of(Update)
    assert (update.started, update.finished, update.due) == (0.25, 2.75, 3.25)


def test_steps_are_computed_a_little_ahead_of_their_time(time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    began = []
    gradient = TinyTask.gradient
    start = time.now
    monkeypatch.setattr(TinyTask, "gradient", lambda *words: (began.append(time.now - start), gradient(*words))[1])
    live(ScriptedPeer(time, job(time, steps=3)), throttle="pace", seconds_per_sample=0.125, **LINKS)
    warmed_up, computed = began[:2], began[2:]
    assert warmed_up == [0.0, 0.0]  # before the device joins
    assert computed == pytest.approx([0.25, 0.875 - 0.1, 1.5 - 0.1], abs=1e-4)


@pytest.mark.parametrize("dilation", [1.0, 3.0])
def test_heartbeats_come_at_their_emulated_interval_while_the_device_waits(time: Time, dilation: float) -> None:
    peer = ScriptedPeer(time, job(time), updates=0, last=1.0)
    live(peer, dilation, down=Direction(delay=100.0))
    heartbeats = [moment for moment, _ in peer.of(Heartbeat)][:-1]  # without the last one, which answers Stop
    assert np.diff(heartbeats) == pytest.approx(0.05 * dilation, abs=1e-3)
    assert len(heartbeats) >= 6


@pytest.mark.parametrize(
    ("settings", "share"),
    [
        ({}, 0.2),
        ({"throttle": "pace"}, 1.0),
        ({"down": Direction(drop=1e-9)}, 1.0),
        ({"up": Direction(drop=1e-9)}, 1.0),
    ],
)
def test_updates_of_a_device_without_throttle_and_losses_replace_four_of_five_heartbeats(
    time: Time, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], share: float
) -> None:
    interval, jobs = CONFIG.heartbeat_seconds, 20
    monkeypatch.setattr(main, "steps_of_job", lambda *_: slow_step(time, interval))
    model = np.zeros(TinyTask.SIZE, dtype=np.float32)
    trains = [Train(ticket=ticket, version=0, sent=0.0, job=Job(steps=1), model=model) for ticket in range(1, jobs + 1)]
    peer = AnsweringPeer(time, [Welcome(origin=time.now), *trains, Stop(reason="enough")], updates=jobs)
    live(peer, **settings)
    assert len(peer.of(Update)) == jobs
    heartbeats = len(peer.of(Heartbeat)) - 2  # without the first one, before any job, and the answer to Stop
    assert heartbeats == share * jobs


class AnsweringPeer(ScriptedPeer):
    """Hands out each Train after the update of the one before."""

    def receive(self, timeout: float) -> list[Buffer] | None:
        following = self._script[0] if self._script else None
        if isinstance(following, Train) and len(self.of(Update)) < following.ticket - 1:
            return None
        return super().receive(timeout)


def slow_step(time: Time, seconds: float) -> Generator[float, None, Any]:
    time.sleep(seconds)
    yield 1.0
    return np.zeros(TinyTask.SIZE, dtype=np.float32)


# ---- a device that is stopped by a signal


def suspended(time: Time, monkeypatch: pytest.MonkeyPatch, share: float, dilation: float = 1.0) -> Any:
    """Run a job with a suspension that ends early, after a ``share`` of it.

    Return the peer, and the beginning and the host seconds of each freeze.
    """
    frozen: list[tuple[float, float]] = []
    start = time.now

    def freeze(seconds: float) -> None:
        frozen.append((time.now - start, seconds))
        time.sleep(share * seconds)

    monkeypatch.setattr(main, "freeze", freeze)
    peer = ScriptedPeer(time, job(time))
    live(peer, dilation, throttle="pace", seconds_per_sample=0.125, suspend=1.0, suspend_max=9.0, suspend_by="signal")
    return peer, frozen


@pytest.mark.parametrize("dilation", [1.0, 0.5])
def test_a_device_that_is_suspended_by_signal_stops_itself_for_the_whole_suspension(
    time: Time, monkeypatch: pytest.MonkeyPatch, dilation: float
) -> None:
    expected = timetable(dataclasses.replace(SPEC, suspend=1.0, suspend_max=9.0), CONFIG.seed).suspension(0)
    assert expected is not None
    peer, [(began, seconds)] = suspended(time, monkeypatch, 1.0, dilation)
    assert seconds == pytest.approx(expected.seconds * dilation, abs=1e-3)
    assert not [moment for moment, _ in peer.of(Heartbeat) if began < moment < began + seconds]
    [(_, update)] = peer.of(Update)
    assert update.due == pytest.approx(2 * 5 * 0.125 + expected.seconds, abs=1e-3)


def test_a_device_that_is_woken_early_stays_awake_and_suspended(time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    peer, [(began, seconds)] = suspended(time, monkeypatch, 0.25)
    awake = [heartbeat for moment, heartbeat in peer.of(Heartbeat) if began + 0.25 * seconds < moment < began + seconds]
    assert {heartbeat.state for heartbeat in awake} == {"suspended"}


def test_a_head_that_is_stopped_continues_in_time_for_a_result_that_is_under_way(
    time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen: list[float] = []
    monkeypatch.setattr(main, "freeze", lambda seconds: (frozen.append(seconds), time.sleep(seconds)))
    head = DeviceProcess(CONFIG, TinyTask(), ScriptedPeer(time, []), cores=(3,))  # type: ignore[arg-type]
    head._driver.device = SimpleNamespace(frozen_until=5.0)  # type: ignore[assignment]
    moments = iter([2.0, 2.0, math.inf])  # its cluster has something to send, and then nothing
    head._driver.cluster = SimpleNamespace(due=lambda: next(moments))  # type: ignore[assignment]
    clock = WallClock(time.now, 1.0)
    for _ in range(3):
        head._freeze_if_suspended(clock)
    assert frozen == pytest.approx([2.0, 3.0], abs=1e-3)


def test_a_device_that_is_suspended_by_hold_is_not_stopped(time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "freeze", lambda seconds: pytest.fail("it was stopped"))
    peer = ScriptedPeer(time, job(time))
    live(peer, throttle="pace", seconds_per_sample=0.125, suspend=1.0, suspend_max=9.0, suspend_by="hold")
    assert "suspended" in {heartbeat.state for _, heartbeat in peer.of(Heartbeat)}


# ---- waiting


@pytest.mark.parametrize(("left", "sleeps"), [(0.0015, True), (0.5, False)])
def test_the_last_moments_of_a_wait_are_slept_in_a_cluster_too(
    time: Time, monkeypatch: pytest.MonkeyPatch, left: float, sleeps: bool
) -> None:
    waits: list[float] = []

    def wait(timeout: float, ends: object, beside: object) -> None:
        waits.append(timeout)

    monkeypatch.setattr(main, "wait_for_any", wait)
    waiting = DeviceProcess(CONFIG, TinyTask(), ScriptedPeer(time, []), cores=(3,))  # type: ignore[arg-type]
    waiting._driver.cluster = SimpleNamespace(active=True)  # type: ignore[assignment]  # a head, or a member
    clock, began = WallClock(time.now, 1.0), time.now
    assert waiting._wait(clock, left) is None
    assert waits == ([] if sleeps else [pytest.approx(left - 0.001, abs=1e-5)])
    assert time.now - began == pytest.approx(left if sleeps else 0.0, abs=1e-5)
