"""Fuzzing of the aggregator: the decoder, the check of peers, and a whole process under every strategy.

Each target reads mostly invalid frames, and must neither fail nor block.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aggregator.process.aggregator_config import AggregatorConfig
from aggregator.process.assembly import peers_of
from aggregator.strategies import STRATEGIES
from aggregator.strategy import Strategy
from testbed.history import trace
from testbed.host.core_plan import CorePlan
from testbed.host.survey import Survey
from testbed.loading.profile_loader import load
from testbed.planning import planner
from testbed.profile.fleet import DeviceSpec
from testbed.runs.run_folder import RunFolder
from testbed.wire.codec import BadMessage, Buffer, decode
from testbed.wire.messages import EVALUATOR, Train, Update
from tests.aggregator.engine.test_grants import OnRequest
from tests.aggregator.process.test_main import World, prepare
from tests.benchmarks.strategies import PARAMETERS
from tests.chaos.corpus import Frames, frames_of, real_frames
from tests.chaos.mutation import Mutator
from tests.devices.parts import Time
from tests.devices.tiny import TinyTask
from tests.live.runs import Outcome
from tests.testbed.runs.folders import write_results

SIZE = TinyTask.SIZE
AT_ONCE = 500
"""Frames for one process: then it ends and is checked, and another one starts."""
_REAL_SHARE = 0.2
"""The share of valid answers of devices, so that the run makes progress."""


class Wrong(AssertionError):
    """Nothing was raised, but the results are wrong."""


@dataclasses.dataclass
class Fed:
    """Counts what happened to the frames."""

    frames: int = 0
    read: int = 0
    refused: Counter[str] = dataclasses.field(default_factory=Counter)
    last: Frames = dataclasses.field(default_factory=list)
    """The last message: the cause, if anything fails."""
    seen: Callable[[int], None] = lambda count: None

    def take(self, frames: Frames) -> Frames:
        self.frames, self.last = self.frames + 1, frames
        self.seen(self.frames)
        return frames

    def refuse(self, reason: str, count: int = 1) -> None:
        self.refused[reason] += count


Target = Callable[[random.Random, int, Fed, Path], dict[str, int]]
"""Random numbers, number of frames, counters and a folder → number of mutations by kind."""


# ---- the decoder and the peers


def decoder(rng: random.Random, frames: int, fed: Fed, folder: Path) -> dict[str, int]:
    mutator = Mutator(rng, real_frames(SIZE, "rpi-1"))
    for _ in range(frames):
        _read(fed, lambda data: decode(data, SIZE), mutator.next())
    return mutator.kinds


def peers(rng: random.Random, frames: int, fed: Fed, folder: Path) -> dict[str, int]:
    """All peers that an aggregator knows, and some that it does not."""
    mutator = Mutator(rng, real_frames(SIZE, "host-1"))
    who = ("host-1", "host-1", "host-1", "canary@1", EVALUATOR, "stranger", "\udcff\udc00", "")
    hub = peers_of(_config(folder), SIZE)
    try:
        for _ in range(frames):
            peer = rng.choice(who)
            _read(fed, lambda data, peer=peer: hub.read(peer, data), mutator.next())  # type: ignore[misc]
    finally:
        hub.close()
    return mutator.kinds


def _read(fed: Fed, reader: Callable[[list[Buffer]], object], frames: Frames) -> None:
    try:
        reader([*fed.take(frames)])
    except BadMessage as problem:
        fed.refuse(str(problem))
    else:
        fed.read += 1


def _config(folder: Path) -> AggregatorConfig:
    profile = folder / "fuzz.toml"
    profile.write_text('strategy = "fedasync"\ndevices = [{ profile = "host", count = 2 }]', encoding="utf-8")
    experiment = load(profile)
    plan = planner.plan(experiment, Survey(samples=(5, 5)), CorePlan(aggregator=1, evaluator=1, devices=(0, 0)), 1.0)
    return AggregatorConfig(
        experiment=experiment,
        devices=plan.devices,
        dilation=1.0,
        demand=plan.demand,
        pressure=None,
        canaries=("canary@1",),
        core=0,
        endpoint=f"ipc://{folder}/hub",
        run_folder=str(folder),
        status_file=str(folder / "status.json"),
    )


# ---- the aggregator


class Crowd(World):
    """Devices that sometimes answer correctly, among peers that send anything."""

    def __init__(self, time: Time, rng: random.Random, mutator: Mutator, frames: int, fed: Fed) -> None:
        super().__init__(time, canary=True)
        self._rng, self._mutator, self._left, self._fed = rng, mutator, frames, fed
        self._answers: dict[str, Frames] = {}
        self.on_train = self._answer

    def _answer(self, device: str, train: Train) -> None:
        update = Update(
            device=device,
            ticket=train.ticket,
            version=train.version,
            delta=train.model * 0.5,
            samples=5,
            steps=1,
            started=train.sent,
            finished=train.sent,
            due=train.sent,
            loss=0.5,
            trains=1,
        )
        self._answers[device] = frames_of(update)
        if self._rng.random() < _REAL_SHARE:
            self.update(device, train, at=train.sent + 0.01, due=train.sent + 0.01)

    def receive(self, timeout: float) -> tuple[str, list[Buffer]] | None:
        if self._left == 0 or self._rng.random() < 0.3:
            return super().receive(timeout)
        self._left -= 1
        self.time.now += 1e-4
        del self.said[:-100]
        peer = self._rng.choice(("host-1", "host-2", "host-1", "host-2", "canary@1", EVALUATOR, "stranger"))
        answer = self._answers.get(peer)
        frames = self._mutator.of(answer) if answer and self._rng.random() < 0.5 else self._mutator.next()
        return peer, [*self._fed.take(frames)]


def aggregator(rng: random.Random, frames: int, fed: Fed, folder: Path) -> dict[str, int]:
    """A whole process, under each strategy in turn. Afterwards its accounts must balance and results be written."""
    mutator = Mutator(rng, [*real_frames(SIZE, "host-1"), *real_frames(SIZE, "host-2")], plausible=0.5)
    for number, strategy in enumerate(itertools.cycle(_strategies())):
        if fed.frames >= frames:
            return mutator.kinds
        run = RunFolder.new(folder, f"fuzz-{number}", datetime.now(UTC))
        with pytest.MonkeyPatch.context() as patch:
            time = Time()
            patch.setattr("testbed.common.clock.time", time)
            # the task has the data of one device only
            patch.setattr("aggregator.process.assembly.true_groups", lambda fleet, task: None)
            crowd = Crowd(time, rng, mutator, min(AT_ONCE, frames - fed.frames), fed)
            # without the limit, which would drop most messages unread
            settings = ("stop.seconds=1.0", "stop.delivery=0.5", "transport.message_limit=1e9")
            process = prepare(crowd, run.path, patch, *settings, strategy=strategy())
            process.run()
        _check(run, list(process._peers.fleet.values()), fed)
        os.close(run._lock)
        run.remove()
    raise AssertionError("there are strategies")


def _strategies() -> list[Callable[[], Strategy]]:
    named = [name for name in STRATEGIES if name != "asafl"]  # it needs a radio cell; OnRequest replaces it
    return [*(lambda name=name: STRATEGIES[name](**PARAMETERS.get(name, {})) for name in named), OnRequest]  # type: ignore[misc]


def _check(run: RunFolder, devices: list[DeviceSpec], fed: Fed) -> None:
    count = Outcome(code=0, stdout="", stderr="", folder=run.path).recount()
    settled = sum(number for name, number in count.items() if name != "dispatched")
    if settled != count["dispatched"]:
        raise Wrong(f"{count} does not add up")
    summary = write_results(run, devices)
    if any(getattr(summary, name) != number for name, number in count.items()):
        raise Wrong(f"the summary has {summary}, the trace {count}")
    for event in trace.read(run.trace):
        if isinstance(event, trace.Refusal):
            fed.refuse(event.reason, event.count)
    fed.read = fed.frames - fed.refused.total()
