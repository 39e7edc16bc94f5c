"""The other side of fuzzing: an aggregator that is none, as devices, evaluator and canaries hear it; and members of a
cluster that are none, as its head hears them, and the other way round.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from devices.compute.trainer import Steps, Stepwise
from devices.device_config import CanaryConfig, DeviceConfig
from devices.process import canary
from devices.process.main import DeviceProcess
from testbed.processes import evaluator as evaluator_process
from testbed.processes.configs import EvaluatorConfig
from testbed.wire.codec import BadMessage, Buffer, decode, largest_frame
from testbed.wire.messages import Base, Grant, Job, JoinCluster, Refused, Stop, Train, Vector, Welcome
from testbed.wire.sockets import Hub, PeerUnreachable, wait_for_any
from tests.chaos.corpus import Frames, frames_of, real_frames, real_messages
from tests.chaos.mutation import Mutator
from tests.chaos.targets import AT_ONCE, SIZE, Fed
from tests.devices.cluster.test_head import PATIENCE, Cluster, idle, update
from tests.devices.cluster.test_head import SIZE as CLUSTER_SIZE
from tests.devices.cluster.test_membership import Place
from tests.devices.parts import SPEC, Time
from tests.devices.process.test_main import LINKS
from tests.devices.tiny import TinyTask

_RETRY_SECONDS = 0.02
_FOR_ONE_DEVICE = 50
"""Frames: a ticket of any size makes a device deaf to all smaller ones."""
_LARGEST = largest_frame(CLUSTER_SIZE)
"""A peer that is sent a larger frame hangs up, and does not come back: nobody of ours does that."""
_SAMPLES = 64
"""Of a place in a cluster."""


class Forger:
    """The other end of somebody's transport: says what is in the script, then anything, then that it is over."""

    def __init__(self, time: Time, script: Sequence[Frames], mutator: Mutator, frames: int, fed: Fed) -> None:
        self._time, self._mutator, self._left, self._fed = time, mutator, frames, fed
        self._dice = random.Random(fed.frames)
        self._script = [*script]

    def receive(self, timeout: float, beside: int | None = None) -> list[Buffer] | None:
        if self._script:
            return [*self._script.pop(0)]
        if timeout <= 0 and self._dice.random() < 0.9:  # or nobody would come to do anything
            return None
        self._time.sleep(min(max(timeout, 1e-4), 1.0))
        if self._left == 0:
            return [*frames_of(Stop(reason="enough"))]
        self._left -= 1
        return [*take(self._fed, self._mutator.next())]

    def send(self, frames: Sequence[Buffer], timeout: float = 0.0) -> None:
        decode(frames, SIZE)  # whatever it was told, it talks sense


def take(fed: Fed, frames: Frames, size: int = SIZE) -> Frames:
    """Count what can be read of it: nobody tells on this side."""
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


def _said_to(name: str) -> list[Frames]:
    """What an aggregator says to a device, again and again, but that it is over."""
    kinds = (Train, Base, JoinCluster, Grant, Welcome, Refused)
    return [frames_of(message) for message in real_messages(SIZE, name) if isinstance(message, kinds)]


def device(dice: random.Random, frames: int, fed: Fed, folder: Path) -> dict[str, int]:
    """A device, and the clusters that it is told to be in: as a member, or as their head."""
    mutator = Mutator(dice, _said_to(SPEC.name), plausible=0.5)
    specs = (SPEC, dataclasses.replace(SPEC, throttle="none", seconds_per_sample=None, on_drop="give_up", **LINKS))
    while fed.frames < frames:
        config = DeviceConfig(
            spec=dice.choice(specs),
            core=0,
            endpoint="",
            seed=1,
            dilation=1.0,
            beat=0.05,
            job=Job(steps=1),
            heads=str(folder),
        )
        with _own_time() as (patch, time):
            patch.setattr(
                "devices.process.main.wait_for_any", lambda timeout, *_, time=time: time.sleep(max(0.0, timeout))
            )
            script = [[b"before anything"], frames_of(Welcome(origin=time.now - 2.0))]  # jobs were sent by then
            peer: Any = Forger(time, script, mutator, min(_FOR_ONE_DEVICE, frames - fed.frames), fed)
            process = DeviceProcess(config, TinyTask(), peer, cores=(1,))
            try:
                process.run()
            finally:
                process._cluster.leave()
    return mutator.kinds


def head(dice: random.Random, frames: int, fed: Fed, folder: Path) -> dict[str, int]:
    """A cluster head over a real socket. Its member answers as it should now and then."""
    mutator = Mutator(dice, real_frames(CLUSTER_SIZE, "b"), plausible=0.5)
    cluster, now, ticket = Cluster(folder, quorum=1), 0.0, 0
    try:
        cluster.say(idle(), now)
        cluster.receive_model(5, 0, now)
        while fed.frames < frames:
            now += 0.01
            while (told := cluster.member.receive(0)) is not None:
                train = decode(told, CLUSTER_SIZE)
                ticket = train.ticket if isinstance(train, Train) else ticket
            answer = frames_of(update("b", ticket, due=now))
            if dice.random() < 0.1:
                cluster.receive_model(6 + fed.frames, fed.frames, now)
            shown = answer if dice.random() < 0.05 else mutator.of(answer) if dice.random() < 0.5 else mutator.next()
            said = [frame[:_LARGEST] for frame in shown] or [b""]
            cluster.member.send([*take(fed, said, CLUSTER_SIZE)], PATIENCE)
            wait_for_any(PATIENCE, [cluster.head.hub])
            cluster.head.listen(now, 0.0)
            for result in cluster.results:
                decode(frames_of(result), CLUSTER_SIZE)
            del cluster.results[:], cluster.given[:], cluster.head.ledger[:-1000]
    finally:
        cluster.close()
    return mutator.kinds


def member(dice: random.Random, frames: int, fed: Fed, folder: Path) -> dict[str, int]:
    """A member of a cluster, over a real socket, whose head says anything."""
    mutator, now = Mutator(dice, real_frames(CLUSTER_SIZE, "one"), plausible=0.3), 0.0
    boss = Hub(f"ipc://{folder}/head-2", max_bytes=_LARGEST)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.devices.cluster.test_membership.FakeTraining", lambda: _begin)
        place = Place("one", folder, 1)
    place.cluster.enter(JoinCluster(ticket_range=2, head="head", quorum=1), now)
    try:
        while fed.frames < frames:
            now += 0.01
            said = [frame[:_LARGEST] for frame in mutator.next()] or [b""]
            try:
                boss.send("one", [*take(fed, said, CLUSTER_SIZE)])
            except PeerUnreachable:  # it has not greeted us yet
                boss.receive(_RETRY_SECONDS)
            else:
                wait_for_any(_RETRY_SECONDS, place.cluster.ends)
            _live(place, now)
            while (heard := boss.receive(0)) is not None:
                decode(heard[1], CLUSTER_SIZE)  # whatever it was told, it talks sense
    finally:
        place.cluster.leave()
        boss.close(linger=0)
    return mutator.kinds


def _begin(job: Job, base: Vector, number: int) -> Stepwise:
    def steps() -> Steps:
        for _ in range(job.steps_over(_SAMPLES)):
            yield 1.0
        return base

    return Stepwise(steps())


def _live(place: Place, now: float) -> None:
    """As its process does, but for computing: a job may be without end."""
    place.device.advance(now)
    if place.device.wants_step(now):
        place.device.step()
        place.device.stepped(now)
    place.cluster.advance(now)
    for made in place.device.outbox:
        place.cluster.takes(made)
    place.device.outbox.clear()
    place.cluster.tell_boss()
    place.cluster.for_aggregator(place.device.beat())


def evaluator(dice: random.Random, frames: int, fed: Fed, folder: Path) -> dict[str, int]:
    mutator = Mutator(dice, real_frames(SIZE, "evaluator"))
    while fed.frames < frames:
        with _own_time() as (patch, time):
            _meet(
                patch, "testbed.processes.evaluator", Forger(time, [], mutator, min(AT_ONCE, frames - fed.frames), fed)
            )
            evaluator_process.main(EvaluatorConfig(core=0, endpoint=""), TinyTask())
    return mutator.kinds


def singer(dice: random.Random, frames: int, fed: Fed, folder: Path) -> dict[str, int]:
    """A canary."""
    mutator = Mutator(dice, real_frames(SIZE, "canary@1"))
    config = CanaryConfig(
        name="canary@1", core=1, endpoint="", dilation=1.0, batch=1, steps=1, seconds=0.001, every=0.05
    )
    while fed.frames < frames:
        with _own_time() as (patch, time):
            _meet(patch, "devices.process.canary", Forger(time, [], mutator, min(AT_ONCE, frames - fed.frames), fed))
            canary.main(config, TinyTask(), lambda endpoint: None)
    return mutator.kinds


def _meet(patch: pytest.MonkeyPatch, module: str, forger: Forger) -> None:
    """Let a process talk to nobody else, and stay on the cores that it has."""
    patch.setattr(f"{module}.closing_peer", lambda *_, **__: contextlib.nullcontext(forger))
    patch.setattr(f"{module}.settle", lambda *_: (1,))
