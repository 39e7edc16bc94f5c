"""The aggregator process with a scripted transport and a clock that moves only while the process waits."""

from __future__ import annotations

import heapq
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec
import numpy as np
import pytest

from aggregator.pacing import EveryUpdate
from aggregator.process.aggregator_config import AggregatorConfig, Resumption
from aggregator.process.main import AggregatorProcess
from aggregator.strategy import Decision, Server, Strategy
from testbed.history import trace
from testbed.host.core_plan import CorePlan
from testbed.host.survey import Survey
from testbed.loading.profile_loader import load
from testbed.planning import planner
from testbed.wire.codec import Buffer, decode, encode
from testbed.wire.messages import (
    EVALUATOR,
    STOPPED,
    Ask,
    CanaryReport,
    HeadReport,
    Heartbeat,
    Hello,
    JoinCluster,
    Message,
    Refused,
    Score,
    Snapshot,
    Stop,
    Train,
    Update,
    Vector,
    Welcome,
)
from tests.aggregator.strategies.by_hand import validated
from tests.devices.parts import Time
from tests.devices.tiny import TinyTask

E = TypeVar("E", bound=trace.Event)
SOON = 1e-3
"""Seconds that the process itself takes: the clock moves a little at every look."""


class World:
    """All peers of the aggregator. They say hello, receive jobs, and answer by a script.

    ``overslept``: seconds by which the process returns late from waiting for a message.
    """

    endpoint = "nowhere"

    def __init__(
        self,
        time: Time,
        dilation: float = 1.0,
        overslept: float = 0.0,
        canary: bool = False,
        devices: Sequence[str] = ("host-1", "host-2"),
    ) -> None:
        self.time, self.dilation, self.overslept = time, dilation, overslept
        self.canaries = ("canary@1",) if canary else ()
        self.said: list[tuple[str, Message]] = []
        """Peer and message of everything that the aggregator sent."""
        self.on_train: Callable[[str, Train], None] = lambda device, train: None
        self._origin = time.now
        self._queue: list[tuple[float, int, str, list[Buffer]]] = []
        for name in (*devices, *self.canaries, EVALUATOR):
            self.at(0.0, name, Hello(device=name, pid=os.getpid(), cores=(1,), samples=5))

    def at(self, moment: float, peer: str, message: Message) -> None:
        """Let a peer send a message at an emulated moment."""
        host = self._origin + moment * self.dilation
        heapq.heappush(self._queue, (host, len(self.said) + len(self._queue), peer, encode(message)))

    def update(
        self, device: str, train: Train, at: float, due: float, delta: Vector | None = None, **changes: Any
    ) -> None:
        self.at(
            at,
            device,
            Update(
                device=device,
                ticket=train.ticket,
                version=train.version,
                delta=np.ones(TinyTask.SIZE, np.float32) if delta is None else delta,
                samples=5,
                steps=1,
                started=0.0,
                finished=0.0,
                due=due,
                loss=1.0,
                trains=1,
                **changes,
            ),
        )

    def heartbeat(self, device: str, at: float, **changes: Any) -> None:
        self.at(at, device, msgspec.structs.replace(Heartbeat(device=device, state="idle"), **changes))

    # ---- the hub, as the aggregator uses it

    def send(self, peer: str, frames: Sequence[Buffer]) -> None:
        message = decode(frames, TinyTask.SIZE)
        self.said.append((peer, message))
        now = (self.time.now - self._origin) / self.dilation
        if isinstance(message, Welcome):
            self._origin = message.origin
        elif isinstance(message, Train):
            self.on_train(peer, message)
        elif isinstance(message, Snapshot):
            self.at(now, peer, Score(version=message.version, made=message.made, metrics={"accuracy": 0.5}))
        elif isinstance(message, Stop):
            self.heartbeat(peer, now, state=STOPPED)

    def receive(self, timeout: float) -> tuple[str, list[Buffer]] | None:
        limit = self.time.now + timeout + (self.overslept if timeout > 0 else 0.0)
        if self._queue and self._queue[0][0] <= limit:
            moment, _, peer, frames = heapq.heappop(self._queue)
            self.time.now = max(self.time.now, moment)
            return peer, frames
        self.time.now = limit
        return None

    def has_unread(self) -> bool:
        return bool(self._queue) and self._queue[0][0] <= self.time.now

    def rejected_connections(self) -> Counter[tuple[str, str]]:
        return Counter()

    def close(self) -> None:
        pass


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    own = Time()
    monkeypatch.setattr("testbed.common.clock.time", own)
    # a world has no transport: other threads are those of pytest
    monkeypatch.setattr("aggregator.connections.lost_devices.is_another_thread_runnable", lambda: False)
    return own


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def prepare(
    world: World,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *settings: str,
    strategy: Strategy | None = None,
    resume: Resumption | None = None,
) -> AggregatorProcess:
    """The process for a run with two devices that are not throttled, and a strategy that applies every update."""
    if strategy is not None:
        monkeypatch.setattr("aggregator.process.assembly.strategy_of", lambda experiment: strategy)
    profile = folder / "mine.toml"
    profile.write_text(
        'strategy = "fedasync"\nstop.seconds = 2.0\ndevices = [{ profile = "host", count = 2 }]', encoding="utf-8"
    )
    experiment = load(profile, settings)
    cores = CorePlan(aggregator=1, evaluator=1, devices=(0, 0))
    plan = planner.plan(experiment, Survey(samples=(5, 5)), cores, world.dilation)
    monkeypatch.setattr("aggregator.connections.peers.Hub", lambda endpoint, **_: world)
    config = AggregatorConfig(
        experiment=experiment,
        devices=plan.devices,
        dilation=plan.dilation,
        demand=plan.demand,
        pressure=None,
        canaries=world.canaries,
        core=0,
        endpoint="",
        run_folder=str(folder),
        status_file=str(folder / "status.json"),
        resume=resume,
    )
    process = AggregatorProcess(config, TinyTask())
    validated(process._engine)
    return process


def run(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch, *settings: str, strategy: Strategy | None = None
) -> list[trace.Event]:
    """Return the trace of such a run."""
    prepare(world, folder, monkeypatch, *settings, strategy=strategy).run()
    return list(trace.read(folder / "trace.jsonl"))


def of(kind: type[E], events: Sequence[trace.Event]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


# ---- updates are kept until they are due


def test_an_update_is_handled_when_it_is_due_and_not_before(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time)

    def answer(device: str, train: Train) -> None:
        if train.version == 0 and device == "host-1":
            world.update(device, train, at=0.5, due=0.625)
            world.heartbeat(
                device, at=0.55, ticket=train.ticket, finished=train.ticket, trains=1
            )  # the update is still on its way

    world.on_train = answer
    [arrived] = of(trace.Arrived, run(world, folder, monkeypatch))
    assert (arrived.device, arrived.due, arrived.bytes) == ("host-1", 0.625, 4 * TinyTask.SIZE)
    assert 0.625 <= arrived.t <= 0.625 + SOON


def test_an_overdue_update_is_handled_at_once(time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(time)
    world.on_train = lambda device, train: None if train.version else world.update(device, train, at=0.5, due=0.25)
    arrived = of(trace.Arrived, run(world, folder, monkeypatch))
    assert [event.due for event in arrived[:2]] == [0.25, 0.25]
    assert arrived[0].t == pytest.approx(0.5, abs=SOON)


def test_updates_are_handled_in_the_order_in_which_they_are_due(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, due = World(time), {"host-1": 0.75, "host-2": 0.625}

    def answer(device: str, train: Train) -> None:
        if train.ticket <= 2:
            world.update(device, train, at=0.5, due=due[device])

    world.on_train = answer
    events = run(world, folder, monkeypatch)
    assert [event.device for event in of(trace.Arrived, events)] == ["host-2", "host-1"]
    assert [event.tickets for event in of(trace.Aggregated, events)] == [[2], [1]]


@pytest.mark.parametrize("overslept", [0.0, 0.25])
def test_a_heartbeat_does_not_overtake_an_update_that_is_due(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch, overslept: float
) -> None:
    world = World(time, overslept=overslept)

    def answer(device: str, train: Train) -> None:
        if train.version == 0 and device == "host-1":
            world.update(device, train, at=0.5, due=0.625)
            world.heartbeat(device, at=0.6875, ticket=0, finished=train.ticket, trains=1)  # by itself: it was given up

    world.on_train = answer
    events = run(world, folder, monkeypatch)
    assert [event.device for event in of(trace.Arrived, events)] == ["host-1"]
    assert of(trace.Lost, events) == []


def test_an_update_that_falls_due_during_a_long_decision_is_handled_right_after_it(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time)

    def answer(device: str, train: Train) -> None:
        if device == "host-2" and train.version == 0:
            world.update(device, train, at=0.5, due=0.8)
        elif device == "host-1" and train.ticket == 1:
            world.heartbeat(device, at=0.62, ticket=0, finished=1, trains=1)  # given up: it is sent a new job
        elif device == "host-1" and train.version == 0:
            time.now += 0.4

    world.on_train = answer
    [arrived] = of(trace.Arrived, run(world, folder, monkeypatch))
    assert arrived.handled == pytest.approx(1.02, abs=0.01)


@pytest.mark.parametrize(
    ("dilation", "ahead", "refused"), [(1.0, 0.9, False), (1.0, 1.1, True), (0.5, 1.9, False), (4.0, 0.3, True)]
)
def test_an_update_that_is_due_in_more_than_a_host_second_is_refused(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch, dilation: float, ahead: float, refused: bool
) -> None:
    world = World(time, dilation)

    def answer(device: str, train: Train) -> None:
        if train.version == 0 and device == "host-1":
            world.update(device, train, at=0.05, due=0.05 + ahead)

    world.on_train = answer
    events = run(world, folder, monkeypatch)
    assert [event.reason for event in of(trace.Refusal, events)] == [
        "an update that is due long after it was sent"
    ] * refused
    assert len(of(trace.Arrived, events)) == (not refused)
    assert any(isinstance(message, Refused) for _, message in world.said) == refused


def test_a_request_under_a_strategy_without_grants_is_refused(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time, 1.0)
    world.at(0.25, "host-1", Ask(device="host-1", ticket=1, due=0.25))
    events = run(world, folder, monkeypatch)
    assert [event.reason for event in of(trace.Refusal, events)] == [
        "a request for a rate, but this strategy grants none"
    ]


LEFT: Any = trace.Left(t=0.0, device="host-2", reason="")
FORGED: dict[str, Message] = {
    "JoinCluster, which this device may not send": JoinCluster(
        ticket_range=1, head="host-1", members=(("host-1", 1, 0),)
    ),
    "Train, which this device may not send": Train(
        ticket=1, version=0, sent=0.0, job=None, model=np.zeros(8, np.float32), for_cluster=True
    ),
    "HeadReport, which this device may not send": HeadReport(device="host-2", ticket_range=1, events=()),
    "a HeadReport of a cluster that this device does not head": HeadReport(device="host-1", ticket_range=1, events=()),
    "HeadReport: Invalid value 'left' - at `$.events[0].kind`": HeadReport(
        device="host-1", ticket_range=1, events=(LEFT,)
    ),
    "Heartbeat: Invalid value 'left' - at `$.events[0].kind`": Heartbeat(device="host-1", state="idle", events=(LEFT,)),
    "it reports events of another device": Heartbeat(
        device="host-1",
        state="idle",
        events=(trace.Suspended(t=0.25, device="host-2", ticket=1, asked=0.5, obtained=0.5),),
    ),
    "CanaryReport, which this device may not send": CanaryReport(
        event=trace.Canary(t=0.25, core=1, asked=0.02, alone=0.02, obtained=0.021)
    ),
}


@pytest.mark.parametrize("reason", FORGED)
def test_a_message_that_only_an_aggregator_or_a_head_may_send_is_refused(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    world = World(time)
    sent: list[Train] = []

    def answer(device: str, train: Train) -> None:
        sent.append(train)
        if train.version == 0 and device == "host-1":
            world.at(0.25, device, FORGED[reason])
            world.update(device, train, at=0.5, due=0.625)

    world.on_train = answer
    events = run(world, folder, monkeypatch)
    assert [event.reason for event in of(trace.Refusal, events)] == [reason]
    assert (Refused(reason=reason)) in [message for _, message in world.said]
    assert len(of(trace.Arrived, events)) == 1  # and the device continues
    assert of(trace.Grouped, events) == of(trace.Left, events) == of(trace.Canary, events) == []


def test_an_update_that_is_due_after_the_end_is_in_flight(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time)
    world.on_train = lambda device, train: world.update(device, train, at=1.9, due=2.1)
    events = run(world, folder, monkeypatch)
    assert of(trace.Arrived, events) == []
    [stopped] = of(trace.Stopped, events)
    assert stopped.in_flight == 2
    assert stopped.t == pytest.approx(2.0, abs=SOON)


def test_the_last_version_ends_the_run_before_the_next_update_is_handled(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time)
    world.on_train = lambda device, train: world.update(device, train, at=0.5, due=0.625)
    events = run(world, folder, monkeypatch, "stop.versions=1")
    assert len(of(trace.Arrived, events)) == 1
    assert of(trace.Stopped, events)[0].reason == "version 1 is reached"


# ---- wakes


@dataclass(kw_only=True)
class Wakeful(EveryUpdate):
    """Asks for one wake after the other, and notes each event that it gets with its moment.

    A wish is a moment, or "again": at once. The first is made at the start, the next at each wake.
    """

    wishes: list[float | str]
    after_updates: list[float | str] = field(default_factory=list)
    """Wakes to ask for, one at each update."""
    given: list[tuple[str, float]] = field(default_factory=list)

    def on_start(self, server: Server) -> Decision:
        return self._wishing(super().on_start(server), server, self.wishes)

    def on_wake(self, server: Server) -> Decision:
        self.given.append(("wake", server.now))
        return self._wishing(Decision(), server, self.wishes)

    def on_update(self, update: Update, server: Server) -> Decision:
        self.given.append((update.device, server.now))
        return self._wishing(super().on_update(update, server), server, self.after_updates)

    def _wishing(self, decision: Decision, server: Server, wishes: list[float | str]) -> Decision:
        wish = wishes.pop(0) if wishes else None
        return msgspec.structs.replace(decision, wake_at=server.now if wish == "again" else wish)


def first_updates(world: World, **due: float) -> None:
    """Let devices send their first update at 0.5, due at these moments."""

    def answer(device: str, train: Train) -> None:
        moment = due.pop(device.replace("-", "_"), None)
        if moment is not None:
            world.update(device, train, at=0.5, due=moment)

    world.on_train = answer


@pytest.mark.parametrize("overslept", [0.0, 0.25])
@pytest.mark.parametrize(
    ("wake", "order"),
    [
        (0.5625, ["wake", "host-2", "host-1"]),
        (0.6875, ["host-2", "wake", "host-1"]),
        (0.8125, ["host-2", "host-1", "wake"]),
    ],
)
def test_what_was_due_first_reaches_the_strategy_first_and_counts_from_then(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch, overslept: float, wake: float, order: list[str]
) -> None:
    world, strategy = World(time, overslept=overslept), Wakeful(wishes=[wake])
    first_updates(world, host_1=0.75, host_2=0.625)
    run(world, folder, monkeypatch, strategy=strategy)
    due = {"wake": wake, "host-1": 0.75, "host-2": 0.625}
    assert strategy.given == [(what, due[what]) for what in order]


@pytest.mark.parametrize("overslept", [0.0, 0.25])
def test_an_update_comes_before_the_wake_of_the_same_moment(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch, overslept: float
) -> None:
    world, strategy = World(time, overslept=overslept), Wakeful(wishes=[0.625])
    first_updates(world, host_1=0.625, host_2=0.625)
    run(world, folder, monkeypatch, strategy=strategy)
    assert strategy.given == [("host-1", 0.625), ("host-2", 0.625), ("wake", 0.625)]


@pytest.mark.parametrize("overslept", [0.0, 0.25])
def test_a_strategy_may_be_woken_again_at_the_same_moment_before_anything_later(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch, overslept: float
) -> None:
    world, strategy = World(time, overslept=overslept), Wakeful(wishes=[0.5625, "again", "again", 0.6875])
    first_updates(world, host_1=0.625)
    run(world, folder, monkeypatch, strategy=strategy)
    assert strategy.given == [*[("wake", 0.5625)] * 3, ("host-1", 0.625), ("wake", 0.6875)]


def test_a_message_does_not_overtake_a_wake_that_is_due(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, strategy = World(time, overslept=0.25), Wakeful(wishes=[0.375])
    first_updates(world, host_1=0.25)  # received at 0.5, after its due moment: it counts from its receipt
    run(world, folder, monkeypatch, strategy=strategy)
    assert [what for what, _ in strategy.given] == ["wake", "host-1"]
    assert [moment for _, moment in strategy.given] == pytest.approx([0.375, 0.5], abs=SOON)


def test_a_wake_in_the_past_does_not_move_time_back(time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, strategy = World(time), Wakeful(wishes=[], after_updates=[0.125])
    first_updates(world, host_1=0.625)
    run(world, folder, monkeypatch, strategy=strategy)
    assert strategy.given == [("host-1", 0.625), ("wake", 0.625)]


def test_a_strategy_that_sets_the_same_wake_for_ever_does_not_keep_the_run_from_ending(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @dataclass(kw_only=True)
    class Restless(EveryUpdate):
        def on_start(self, server: Server) -> Decision:
            return msgspec.structs.replace(super().on_start(server), wake_at=0.5)

        def on_wake(self, server: Server) -> Decision:
            time.now += 0.01
            return Decision(wake_at=server.now)

    [stopped] = of(trace.Stopped, run(World(time), folder, monkeypatch, strategy=Restless()))
    assert stopped.reason == "2 seconds are over"
    assert stopped.t == pytest.approx(2.0, abs=0.02)


def test_the_last_version_ends_the_run_before_the_wake(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, strategy = World(time, overslept=0.25), Wakeful(wishes=[0.6875])
    first_updates(world, host_1=0.625)
    run(world, folder, monkeypatch, "stop.versions=1", strategy=strategy)
    assert strategy.given == [("host-1", 0.625)]


# ---- emulated time


@pytest.mark.parametrize("dilation", [0.5, 1.0, 4.0])
def test_a_run_takes_its_seconds_times_the_dilation(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch, dilation: float
) -> None:
    world, began = World(time, dilation), time.now
    events = run(world, folder, monkeypatch)
    assert time.now - began == pytest.approx(2.0 * dilation, abs=0.01)
    assert of(trace.Stopped, events)[0].t == pytest.approx(2.0, abs=0.01)
    [header] = of(trace.Header, events)
    assert (header.schema, header.dilation) == (trace.SCHEMA, dilation)


def test_a_train_contains_the_moment_at_which_it_was_sent(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time)
    world.on_train = lambda device, train: None if train.version else world.update(device, train, at=0.5, due=0.625)
    run(world, folder, monkeypatch)
    sent = [message.sent for _, message in world.said if isinstance(message, Train)]
    assert sent == pytest.approx([0.0, 0.0, 0.625, 0.625], abs=SOON)


# ---- the load of the aggregator


def test_the_aggregator_records_its_load_about_once_a_host_second(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time, dilation=2.0)
    world.on_train = lambda device, train: None if train.version else world.update(device, train, at=0.5, due=0.5)
    loads = of(trace.Load, run(world, folder, monkeypatch))
    assert sum(load.span for load in loads) == pytest.approx(4.0, abs=0.1)
    assert 3 <= len(loads) <= 5
    assert sum(load.served for load in loads) == 2
    assert all(load.busy < 0.05 * load.span for load in loads)


# ---- canaries


SAMPLE: Any = trace.Canary(t=1.0, core=1, asked=0.02, alone=0.02, obtained=0.021)
DEVICE_EVENT: Any = trace.Suspended(t=1.0, device="host-1", ticket=1, asked=0.5, obtained=0.5)


def test_the_samples_of_a_canary_are_traced_and_it_is_no_device(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time, canary=True)
    world.at(1.0, "canary@1", CanaryReport(event=SAMPLE))
    events = run(world, folder, monkeypatch)
    assert of(trace.Canary, events) == [SAMPLE]
    assert [event.device for event in of(trace.Joined, events)] == ["host-1", "host-2"]
    assert [type(message) for peer, message in world.said if peer == "canary@1"] == [Welcome, Stop]


@pytest.mark.parametrize(
    "message",
    [
        Heartbeat(device="canary@1", state="", events=(DEVICE_EVENT,)),
        Heartbeat(device="canary@1", state="", events=(SAMPLE,)),
        CanaryReport(event=DEVICE_EVENT),
        CanaryReport(event=msgspec.structs.replace(SAMPLE, obtained=float("nan"))),
        Stop(reason="me too"),
    ],
)
def test_a_canary_may_only_send_samples(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch, message: Message
) -> None:
    world = World(time, canary=True)
    world.at(1.0, "canary@1", message)
    events = run(world, folder, monkeypatch)
    assert [event.peer for event in of(trace.Refusal, events)] == ["canary@1"]
    assert of(trace.Canary, events) == of(trace.Suspended, events) == []


def test_an_update_that_waited_counts_from_its_due_moment_and_so_does_the_answer(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time)
    world.on_train = lambda device, train: None if train.version else world.update(device, train, at=0.5, due=0.625)
    events = run(world, folder, monkeypatch)
    arrived = of(trace.Arrived, events)[:2]
    assert [(event.t, event.due) for event in arrived] == [(0.625, 0.625)] * 2
    assert all(event.received <= 0.625 <= event.handled for event in arrived)
    answered = [event.t for event in of(trace.Dispatched, events) if event.version > 0]
    assert answered[:2] == [0.625, 0.625]


# ---- the final model


@dataclass(kw_only=True)
class Broadcasts(EveryUpdate):
    """Applies every update, and broadcasts the final model."""

    broadcasts_final_model: ClassVar[bool] = True


def finals(world: World) -> list[tuple[str, int]]:
    """The devices that were sent the final model, and its version."""
    return [(peer, said.version) for peer, said in world.said if isinstance(said, Train) and said.job is None]


def test_a_run_that_broadcasts_the_final_model_ends_when_every_device_has_it(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, moments = World(time), {"host-1": 2.5, "host-2": 3.25}

    def answer(device: str, train: Train) -> None:
        if train.job is None:
            world.heartbeat(device, at=moments[device], finished=train.ticket, trains=2)

    world.on_train = answer
    events = run(world, folder, monkeypatch, strategy=Broadcasts())
    assert finals(world) == [("host-1", 0), ("host-2", 0)]
    delivered = of(trace.Delivered, events)
    assert [event.device for event in delivered] == ["host-1", "host-2"]
    assert [event.t for event in delivered] == pytest.approx([2.5, 3.25], abs=SOON)
    [stopped] = of(trace.Stopped, events)
    assert (stopped.reason, stopped.in_flight) == ("2 seconds are over", 0)
    assert stopped.t == pytest.approx(3.25, abs=SOON)
    assert [type(message) for peer, message in world.said if peer == "host-1"][-2:] == [Train, Stop]


def test_a_run_without_a_final_broadcast_ends_at_once(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time)
    [stopped] = of(trace.Stopped, run(world, folder, monkeypatch))
    assert finals(world) == []
    assert stopped.t == pytest.approx(2.0, abs=SOON)


@pytest.mark.parametrize("patience", [0.5, 1.5])
def test_devices_without_the_final_model_are_awaited_for_the_configured_time(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch, patience: float
) -> None:
    events = run(
        World(time), folder, monkeypatch, f"stop={{seconds = 2, delivery = {patience}}}", strategy=Broadcasts()
    )
    [stopped] = of(trace.Stopped, events)
    assert stopped.t == pytest.approx(2.0 + patience, abs=0.1 + SOON)
    assert (stopped.reason, stopped.in_flight, of(trace.Delivered, events)) == ("2 seconds are over", 2, [])


def test_a_device_that_joins_during_the_final_broadcast_gets_the_model(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time)
    world.at(2.5, "host-2", Hello(device="host-2", pid=os.getpid(), cores=(1,), samples=5))

    def answer(device: str, train: Train) -> None:
        if train.job is None and (device == "host-1" or train.sent > 2.25):
            world.heartbeat(device, at=2.75, finished=train.ticket, trains=2 if device == "host-1" else 1)

    world.on_train = answer
    events = run(world, folder, monkeypatch, strategy=Broadcasts())
    assert finals(world) == [("host-1", 0), ("host-2", 0), ("host-2", 0)]
    assert [event.device for event in of(trace.Delivered, events)] == ["host-1", "host-2"]
    assert of(trace.Stopped, events)[0].in_flight == 0


def test_an_update_during_the_final_broadcast_makes_no_version(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time)

    def answer(device: str, train: Train) -> None:
        if train.job is None:
            world.heartbeat(device, at=2.75, finished=train.ticket, trains=2)
        elif device == "host-1":
            world.update(device, train, at=1.9, due=2.1)  # due after the end
        else:
            world.update(device, train, at=2.25, due=2.25)

    world.on_train = answer
    events = run(world, folder, monkeypatch, strategy=Broadcasts())
    assert of(trace.Arrived, events) == of(trace.Aggregated, events) == []
    assert [event.device for event in of(trace.Superseded, events)] == ["host-1", "host-2"]
    [stopped] = of(trace.Stopped, events)
    assert (stopped.version, stopped.in_flight) == (0, 0)


def test_an_interrupted_run_broadcasts_nothing(time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(time)
    process = prepare(world, folder, monkeypatch, strategy=Broadcasts())
    world.on_train = lambda device, train: process.stop("Ctrl-C")
    process.run()
    [stopped] = of(trace.Stopped, list(trace.read(folder / "trace.jsonl")))
    assert (finals(world), stopped.reason) == ([], "Ctrl-C")
    assert stopped.t < 0.2


def test_an_interrupt_ends_the_wait_for_devices_that_do_not_have_the_final_model(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time)
    process = prepare(world, folder, monkeypatch, strategy=Broadcasts())
    world.on_train = lambda device, train: process.stop("Ctrl-C") if train.job is None else None
    process.run()
    [stopped] = of(trace.Stopped, list(trace.read(folder / "trace.jsonl")))
    assert len(finals(world)) == 2
    assert (stopped.reason, stopped.in_flight) == ("2 seconds are over", 2)
    assert stopped.t == pytest.approx(2.0, abs=SOON)


# ---- early stopping


def test_a_run_ends_when_its_scores_do_not_improve(time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(time)
    world.on_train = lambda device, train: world.update(device, train, at=train.sent + 0.25, due=train.sent + 0.25)
    events = run(world, folder, monkeypatch, "stop={seconds = 30, patience = 3}", "evaluation.every=0.5")
    [stopped] = of(trace.Stopped, events)
    assert stopped.reason == "the loss has not fallen for 3 scores"  # this evaluator reports no loss
    assert stopped.t < 3.0
    assert len([event for event in of(trace.Scored, events) if event.t <= stopped.t]) == 3
