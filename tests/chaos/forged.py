"""Fuzzing of devices, evaluator and canaries by a forged aggregator, and of cluster heads and members by each other."""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from devices.compute.kept_memory import JobTickets
from devices.compute.trainer import Steps, Stepwise
from devices.device_config import CanaryConfig, DeviceConfig
from devices.process import canary
from devices.process.main import DeviceProcess
from testbed.processes.templates import evaluator as evaluator_process
from testbed.processes.templates.configs import EvaluatorConfig
from testbed.wire.codec import BadMessage, Buffer, decode, largest_frame
from testbed.wire.messages import Base, Grant, JoinCluster, Refused, SendGradient, Stop, Train, Vector, Welcome
from testbed.wire.sockets import Hub, PeerUnreachable, wait_for_any
from testbed.wire.training_job import Job
from tests.chaos.corpus import Frames, frames_of, real_frames, real_messages
from tests.chaos.mutation import Mutator
from tests.chaos.targets import AT_ONCE, SIZE, Fed
from tests.devices.cluster.test_head import PATIENCE, HeadWithMember, idle, update
from tests.devices.cluster.test_head import SIZE as CLUSTER_SIZE
from tests.devices.cluster.test_membership import Place
from tests.devices.parts import SPEC, Time
from tests.devices.process.test_main import LINKS
from tests.devices.tiny import TinyTask

_RETRY_SECONDS = 0.02
_FOR_ONE_DEVICE = 50
"""Frames for one device: after a huge ticket, it ignores all smaller ones."""
_LARGEST = largest_frame(CLUSTER_SIZE)
"""A peer closes the connection after a larger frame, and does not return."""
_SAMPLES = 64
"""Samples of a member of a cluster."""


class Forger:
    """A forged transport: sends the messages of the script, then any frames, and Stop at the end."""

    def __init__(self, time: Time, script: Sequence[Frames], mutator: Mutator, frames: int, fed: Fed) -> None:
        self._time, self._mutator, self._left, self._fed = time, mutator, frames, fed
        self._rng = random.Random(fed.frames)
        self._script = [*script]

    def receive(self, timeout: float, file: int | None = None) -> list[Buffer] | None:
        if self._script:
            return [*self._script.pop(0)]
        if timeout <= 0 and self._rng.random() < 0.9:  # or the process would only read
            return None
        self._time.sleep(min(max(timeout, 1e-4), 1.0))
        if self._left == 0:
            return [*frames_of(Stop(reason="enough"))]
        self._left -= 1
        return [*take(self._fed, self._mutator.next())]

    def send(self, frames: Sequence[Buffer], timeout: float = 0.0) -> None:
        decode(frames, SIZE)  # whatever it received, its own messages are valid


def take(fed: Fed, frames: Frames, size: int = SIZE) -> Frames:
    """Count valid and invalid frames: these processes do not answer to invalid ones."""
    try:
        decode([*frames], size)
        fed.read += 1
    except BadMessage as problem:
        fed.refuse(str(problem))
    return fed.take(frames)


@contextlib.contextmanager
def _own_time() -> Iterator[tuple[pytest.MonkeyPatch, Time]]:
    with pytest.MonkeyPatch.context() as patch:
        time = Time()
        patch.setattr("testbed.common.clock.time", time)
        yield patch, time


def _messages_to(name: str) -> list[Frames]:
    """What an aggregator sends to a device, except Stop."""
    kinds = (Train, SendGradient, Base, JoinCluster, Grant, Welcome, Refused)
    return [frames_of(message) for message in real_messages(SIZE, name) if isinstance(message, kinds)]


def device(rng: random.Random, frames: int, fed: Fed, folder: Path) -> dict[str, int]:
    """A device, also as the member or the head of clusters."""
    mutator = Mutator(rng, _messages_to(SPEC.name), plausible=0.5)
    specs = (SPEC, dataclasses.replace(SPEC, throttle="none", seconds_per_sample=None, on_drop="give_up", **LINKS))
    while fed.frames < frames:
        config = DeviceConfig(
            spec=rng.choice(specs),
            cores=(0,),
            endpoint="",
            seed=1,
            dilation=1.0,
            heartbeat_seconds=0.05,
            job=Job(steps=1),
            heads=str(folder),
        )
        with _own_time() as (patch, time):
            patch.setattr(
                "devices.process.main.wait_for_any", lambda timeout, *_, time=time: time.sleep(max(0.0, timeout))
            )
            script = [[b"before anything"], frames_of(Welcome(origin=time.now - 2.0))]  # jobs were sent before
            peer: Any = Forger(time, script, mutator, min(_FOR_ONE_DEVICE, frames - fed.frames), fed)
            process = DeviceProcess(config, TinyTask(), peer, cores=(1,))
            try:
                process.run()
            finally:
                process._driver.cluster.leave()
    return mutator.kinds


def head(rng: random.Random, frames: int, fed: Fed, folder: Path) -> dict[str, int]:
    """A cluster head over a real socket. Its member sends a valid answer at times."""
    mutator = Mutator(rng, real_frames(CLUSTER_SIZE, "b"), plausible=0.5)
    cluster, now, ticket = HeadWithMember(folder, quorum=1), 0.0, 0
    try:
        cluster.send(idle(), now)
        cluster.receive_model(5, 0, now)
        while fed.frames < frames:
            now += 0.01
            while (received := cluster.member.receive(0)) is not None:
                train = decode(received, CLUSTER_SIZE)
                ticket = train.ticket if isinstance(train, Train) else ticket
            answer = frames_of(update("b", ticket, due=now))
            if rng.random() < 0.1:
                cluster.receive_model(6 + fed.frames, fed.frames, now)
            shown = answer if rng.random() < 0.05 else mutator.of(answer) if rng.random() < 0.5 else mutator.next()
            frames_sent = [frame[:_LARGEST] for frame in shown] or [b""]
            cluster.member.send([*take(fed, frames_sent, CLUSTER_SIZE)], PATIENCE)
            wait_for_any(PATIENCE, cluster.links.sockets)
            cluster.head.listen(now, 0.0)
            for result in cluster.results:
                decode(frames_of(result), CLUSTER_SIZE)
            del cluster.results[:], cluster.given[:], cluster.head.unreported[:-1000]
    finally:
        cluster.close()
    return mutator.kinds


def member(rng: random.Random, frames: int, fed: Fed, folder: Path) -> dict[str, int]:
    """A member of a cluster over a real socket, whose head sends any frames."""
    mutator, now = Mutator(rng, real_frames(CLUSTER_SIZE, "one"), plausible=0.3), 0.0
    boss = Hub(f"ipc://{folder}/head-2", max_bytes=_LARGEST)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.devices.cluster.test_membership.FakeTraining", lambda: _begin)
        place = Place("one", folder, 1)
    place.cluster.enter(JoinCluster(ticket_range=2, head="head", quorum=1), now)
    try:
        while fed.frames < frames:
            now += 0.01
            frames_sent = [frame[:_LARGEST] for frame in mutator.next()] or [b""]
            try:
                boss.send("one", [*take(fed, frames_sent, CLUSTER_SIZE)])
            except PeerUnreachable:  # it has not connected yet
                boss.receive(_RETRY_SECONDS)
            else:
                wait_for_any(_RETRY_SECONDS, place.links.sockets)
            _live(place, now)
            while (received := boss.receive(0)) is not None:
                decode(received[1], CLUSTER_SIZE)  # whatever it received, its own messages are valid
    finally:
        place.cluster.leave()
        boss.close(linger=0)
    return mutator.kinds


def _begin(job: Job, base: Vector, number: int, tickets: JobTickets) -> Stepwise:
    def steps() -> Steps:
        for _ in range(job.steps_over(_SAMPLES)):
            yield 1.0
        return base

    return Stepwise(steps())


def _live(place: Place, now: float) -> None:
    """Do what the process of a member does, except for computing: a job may be endless."""
    place.device.advance(now)
    if place.device.wants_step(now):
        place.device.step()
        place.device.stepped(now)
    place.cluster.advance(now)
    for made in place.device.outbox:
        place.cluster.intercept(made)
    place.device.outbox.clear()
    place.cluster.send_heartbeat_to_head()
    place.cluster.for_aggregator(place.device.heartbeat())


def evaluator(rng: random.Random, frames: int, fed: Fed, folder: Path) -> dict[str, int]:
    mutator = Mutator(rng, real_frames(SIZE, "evaluator"))
    while fed.frames < frames:
        with _own_time() as (patch, time):
            forger = Forger(time, [], mutator, min(AT_ONCE, frames - fed.frames), fed)
            _connect(patch, "testbed.processes.templates.evaluator", forger)
            evaluator_process.main(EvaluatorConfig(cores=(0,), endpoint=""), TinyTask())
    return mutator.kinds


def canary_process(rng: random.Random, frames: int, fed: Fed, folder: Path) -> dict[str, int]:
    mutator = Mutator(rng, real_frames(SIZE, "canary@1"))
    config = CanaryConfig(
        name="canary@1", core=1, endpoint="", dilation=1.0, job=Job(), batch=1, steps=1, seconds=0.001, every=0.05
    )
    while fed.frames < frames:
        with _own_time() as (patch, time):
            _connect(patch, "devices.process.canary", Forger(time, [], mutator, min(AT_ONCE, frames - fed.frames), fed))
            canary.main(config, TinyTask(), lambda endpoint: None)
    return mutator.kinds


def _connect(patch: pytest.MonkeyPatch, module: str, forger: Forger) -> None:
    """Connect a process to the forger, and let it keep its cores."""
    patch.setattr(f"{module}.closing_peer", lambda *_, **__: contextlib.nullcontext(forger))
    patch.setattr(f"{module}.settle", lambda *_: (1,))
