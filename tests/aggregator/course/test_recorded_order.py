"""A strict replay: the strategy gets updates in the recorded order, at the recorded moments."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest

from aggregator.course.ending import Ending
from aggregator.course.recorded_order import RecordedOrder
from aggregator.pacing import EveryUpdate
from aggregator.process.main import AggregatorProcess
from aggregator.strategy import Decision, Server, Strategy
from testbed.emulation.recorded import PreparedReplay, RecordedArrival, read_arrivals
from testbed.history import trace
from testbed.loading.profile_loader import load
from testbed.profile.schema import StopWhen
from testbed.replay import replay_setup
from testbed.wire.messages import Train, Update
from tests.aggregator.process import test_main
from tests.aggregator.process.test_main import SOON, Wakeful, World, first_updates, of
from tests.devices.parts import Time
from tests.devices.tiny import TinyTask


def update(device: str, ticket: int = 1, due: float = 0.0) -> Update:
    return Update(
        device=device,
        ticket=ticket,
        version=0,
        delta=np.zeros(1, np.float32),
        samples=1,
        steps=1,
        started=0.0,
        finished=0.0,
        due=due,
        loss=None,
    )


def recorded_order(*recorded: tuple[str, float], wakes: int = 0) -> RecordedOrder:
    """The tickets of each device are numbered from 1."""
    tickets = Counter[str]()
    found = []
    for device, t in recorded:
        tickets[device] += 1
        found.append(RecordedArrival(device, tickets[device], t))
    return RecordedOrder(found, wakes)


def consumed(waiting: RecordedOrder, now: float) -> list[tuple[str, float]]:
    """The devices whose updates arrive by now, and the moments from which these count."""
    found = []
    while (popped := waiting.pop(now, math.inf)) is not None:
        found.append((popped[0].device, popped[2]))
    return found


# ---- order


def test_updates_are_returned_in_the_recorded_order_whatever_the_order_of_receipt() -> None:
    waiting = recorded_order(("b", 1.0), ("a", 2.0), ("c", 3.0))
    for device in ("a", "c", "b"):
        waiting.add(update(device), received=0.5)
    assert consumed(waiting, now=5.0) == [("b", 1.0), ("a", 2.0), ("c", 3.0)]


def test_an_update_waits_until_those_before_it_have_arrived() -> None:
    waiting = recorded_order(("b", 1.0), ("a", 2.0))
    waiting.add(update("a", due=1.5), received=1.25)
    assert waiting.next_due == math.inf
    assert consumed(waiting, now=100.0) == []
    waiting.add(update("b", due=1.0), received=4.0)
    assert consumed(waiting, now=4.0) == [("b", 1.0), ("a", 2.0)]


def test_an_update_that_is_early_waits_for_its_recorded_moment() -> None:
    waiting = recorded_order(("a", 2.0))
    waiting.add(update("a", due=0.5), received=0.25)
    assert waiting.next_due == 2.0
    assert consumed(waiting, now=1.999) == []
    assert consumed(waiting, now=2.0) == [("a", 2.0)]


def test_an_update_that_is_late_counts_from_its_recorded_moment() -> None:
    waiting = recorded_order(("a", 2.0))
    waiting.add(update("a", due=2.5), received=2.75)
    found = waiting.pop(2.75, math.inf)
    assert found is not None
    assert (found[0].device, found[1], found[2]) == ("a", 2.75, 2.0)


def test_an_update_is_not_returned_before_it_is_due() -> None:
    waiting = recorded_order(("a", 2.0))
    waiting.add(update("a", due=2.5), received=2.25)
    assert waiting.next_due == 2.5
    assert consumed(waiting, now=2.499) == []
    assert consumed(waiting, now=2.5) == [("a", 2.0)]


def test_a_device_has_as_many_arrivals_as_were_recorded() -> None:
    waiting = recorded_order(("a", 1.0), ("a", 2.0))
    waiting.add(update("a", ticket=1), received=0.5)
    assert consumed(waiting, now=5.0) == [("a", 1.0)]
    waiting.add(update("a", ticket=2), received=1.5)
    assert consumed(waiting, now=5.0) == [("a", 2.0)]
    waiting.add(update("a", ticket=3), received=2.5)
    assert consumed(waiting, now=100.0) == []


def test_an_update_for_another_ticket_has_no_recorded_arrival() -> None:
    """The device was restarted during its upload: the ticket of the earlier update has ended."""
    waiting = RecordedOrder([RecordedArrival("a", 2, 2.0)], wakes=0)
    waiting.add(update("a", ticket=1), received=0.5)
    assert (waiting.next_due, consumed(waiting, now=5.0)) == (math.inf, [])
    assert (waiting.has_waiting("a", 1), waiting.has_waiting("a", 2)) == (True, False)
    waiting.add(update("a", ticket=2), received=1.5)
    found = waiting.pop(2.0, math.inf)
    assert found is not None
    assert found[0].ticket == 2


# ---- waiting for the next arrival


def test_an_update_is_reported_as_waiting_until_its_recorded_arrival() -> None:
    waiting = recorded_order(("b", 1.0), ("a", 2.0))
    waiting.add(update("a"), received=0.5)
    assert (waiting.has_waiting("a", 1), waiting.has_waiting("b", 1)) == (True, False)
    waiting.add(update("b"), received=1.0)
    consumed(waiting, now=5.0)
    assert (waiting.has_waiting("a", 1), waiting.has_waiting("b", 1)) == (False, False)


def test_the_run_stands_still_at_a_recorded_arrival_until_it_is_over() -> None:
    waiting = recorded_order(("b", 1.0), ("a", 2.0))
    assert [waiting.until(now) for now in (0.5, 1.0, 1.5, 9.0)] == [0.5, 1.0, 1.0, 1.0]
    waiting.add(update("b"), received=1.25)
    assert waiting.until(9.0) == 1.0
    consumed(waiting, now=1.5)
    assert (waiting.until(1.5), waiting.until(9.0)) == (1.5, 2.0)
    waiting.add(update("a"), received=1.5)
    consumed(waiting, now=9.0)
    assert waiting.until(9.0) == 9.0


# ---- wakes, and the end


@pytest.mark.parametrize(("moment", "allowed"), [(0.5, True), (0.999, True), (1.0, False), (1.5, False)])
def test_a_wake_precedes_an_arrival_only_if_it_did_in_the_recorded_run(moment: float, allowed: bool) -> None:
    """A wake of the same moment comes after the update."""
    waiting = recorded_order(("a", 1.0), ("b", 2.0))
    assert waiting.allows_wake(moment) == allowed
    waiting.add(update("a"), received=0.5)
    assert waiting.allows_wake(moment) == allowed


def test_a_wake_between_two_arrivals_comes_after_the_first() -> None:
    waiting = recorded_order(("a", 1.0), ("b", 2.0))
    waiting.add(update("a"), received=0.5)
    assert not waiting.allows_wake(1.5)
    consumed(waiting, now=1.0)
    assert waiting.allows_wake(1.5)
    assert not waiting.allows_wake(2.0)


@pytest.mark.parametrize(
    ("woken", "wake", "over"), [(0, 1.5, False), (1, 1.5, False), (2, 1.5, True), (3, 1.5, True), (0, math.inf, True)]
)
def test_a_recording_is_over_after_all_arrivals_and_wakes(woken: int, wake: float, over: bool) -> None:
    """Moments do not show it: a run may end between two wakes of one moment, and notice it some time after."""
    waiting = recorded_order(("a", 1.0), wakes=2)
    waiting.add(update("a"), received=0.5)
    assert not waiting.is_over(woken, wake)
    consumed(waiting, now=1.0)
    assert waiting.is_over(woken, wake) == over


def test_a_recording_without_an_end_is_over_with_its_last_arrival() -> None:
    """The recorded run was killed: it is unknown which wakes would have followed."""
    waiting = recorded_order(("a", 1.0))
    assert not waiting.is_over(0, 1.5)
    waiting.add(update("a"), received=0.5)
    consumed(waiting, now=1.0)
    assert waiting.is_over(0, 1.5)


# ---- the end of a recording in mode schedule


def test_a_run_may_end_when_the_recording_of_a_device_is_used_up() -> None:
    ending = Ending(StopWhen(seconds=5.0), {"a": 2, "b": 1})
    for jobs in ({"a": 1}, {"a": 2, "b": 1, "stranger": 9}):
        ending.check_jobs(Counter(jobs).__getitem__)
        assert ending.reason is None
    ending.check_jobs(Counter({"a": 3, "b": 1}).__getitem__)
    assert ending.reason == "the recording of a is used up"


def test_a_run_whose_recordings_start_again_does_not_end_with_them() -> None:
    ending = Ending(StopWhen(seconds=5.0))
    ending.check_jobs(lambda device: 100)
    assert ending.reason is None


# ---- the aggregator's process


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    own = Time()
    monkeypatch.setattr("testbed.common.clock.time", own)
    return own


class Replayed(World):
    """Counts how often the aggregator looks for a message, which takes a little time, and fails if there is no end."""

    def __init__(self, time: Time, **changes: Any) -> None:
        super().__init__(time, **changes)
        self.looks, self._began = 0, time.now

    def receive(self, timeout: float) -> Any:
        self.looks += 1
        assert self.looks < 10_000, "the aggregator loops without waiting"
        assert self.time.now < self._began + 500.0, "the run does not end"
        received = super().receive(timeout)
        if received is None and timeout == 0:
            self.time.now += 1e-4
        return received


Recorded = tuple[str, float] | tuple[str, float, int]
"""Device, moment and ticket of an arrival; without a ticket, the first one of that device."""


def _arrival(device: str, t: float, ticket: int | None = None) -> RecordedArrival:
    return RecordedArrival(device, int(device.removeprefix("host-")) if ticket is None else ticket, t)


def process(
    world: World,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    recorded: Sequence[Recorded] = (),
    *,
    mode: str = "strict",
    end: str = "loop",
    wakes: int = 0,
    jobs: dict[str, int] | None = None,
    strategy: Strategy | None = None,
    settings: Sequence[str] = (),
) -> AggregatorProcess:
    """The process of test_main, with a recording that has these arrivals."""
    file = folder / "arrivals"
    file.write_bytes(b"".join(msgspec.json.encode(_arrival(*each)) + b"\n" for each in recorded))
    prepared = PreparedReplay(recordings={}, jobs=jobs or {}, arrivals=str(file), wakes=wakes)
    make = test_main.AggregatorConfig

    def config(**given: Any) -> Any:
        return dataclasses.replace(make(**given), replay=prepared)

    monkeypatch.setattr(test_main, "AggregatorConfig", config)
    (folder / "trace-to-replay").touch()
    asked = f'replay={{trace = "{folder / "trace-to-replay"}", mode = "{mode}", end = "{end}"}}'
    return test_main.prepare(world, folder, monkeypatch, asked, *settings, strategy=strategy)


def run(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch, *recorded: Recorded, **options: Any
) -> list[trace.Event]:
    process(world, folder, monkeypatch, recorded, **options).run()
    return list(trace.read(folder / "trace.jsonl"))


def arrivals(events: Sequence[trace.Event]) -> list[tuple[str, float]]:
    return [(event.device, event.t) for event in of(trace.Arrived, events)]


def arrivals_of(events: Sequence[trace.Event]) -> list[Recorded]:
    return [(event.device, event.t, event.ticket) for event in of(trace.Arrived, events)]


def ended(events: Sequence[trace.Event]) -> str:
    [stopped] = of(trace.Stopped, events)
    return stopped.reason


def test_recorded_arrivals_are_read_as_they_were_written(tmp_path: Path) -> None:
    (tmp_path / "arrivals").write_text('["a-1",1,0.5]\n["b-2",4,1.25]\n', encoding="utf-8")
    assert read_arrivals(tmp_path / "arrivals") == [RecordedArrival("a-1", 1, 0.5), RecordedArrival("b-2", 4, 1.25)]


def test_the_header_contains_the_mode_and_the_last_event_the_hash_of_the_model(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Replayed(time)
    first_updates(world, host_1=0.625)
    events = run(world, tmp_path, monkeypatch, ("host-1", 0.625))
    assert [event.replay for event in of(trace.Header, events)] == ["strict"]
    models = [message.model for _, message in world.said if isinstance(message, Train)]
    [stopped] = of(trace.Stopped, events)
    assert (stopped.version, stopped.model) == (1, hashlib.sha256(models[-1].tobytes()).hexdigest())


def test_an_ordinary_run_has_no_replay_mode_but_a_hash(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time)
    events = test_main.run(world, tmp_path, monkeypatch)
    assert [event.replay for event in of(trace.Header, events)] == [""]
    [stopped] = of(trace.Stopped, events)
    [initial, _] = [message.model for _, message in world.said if isinstance(message, Train)]
    assert stopped.model == hashlib.sha256(initial.tobytes()).hexdigest()


@pytest.mark.parametrize("overslept", [0.0, 0.25])
def test_the_strategy_gets_updates_in_the_recorded_order_at_the_recorded_moments(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overslept: float
) -> None:
    world, strategy = Replayed(time, overslept=overslept), Wakeful(wishes=[])
    first_updates(world, host_1=0.75, host_2=0.625)
    recorded = [("host-1", 0.875), ("host-2", 0.9375)]  # later, and the other way round
    events = run(world, tmp_path, monkeypatch, *recorded, strategy=strategy)
    assert strategy.given == arrivals(events) == recorded
    assert [event.t for event in of(trace.Dispatched, events)] == [0.0, 0.0, 0.875, 0.9375]


def test_a_late_update_reaches_the_strategy_at_its_recorded_moment(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Replayed(time)
    first_updates(world, host_1=0.5)  # received at 0.5
    events = run(world, tmp_path, monkeypatch, ("host-1", 0.25))
    assert arrivals(events) == [("host-1", 0.25)]
    [arrived] = of(trace.Arrived, events)
    assert arrived.received == pytest.approx(0.5, abs=SOON)


def test_messages_of_other_devices_do_not_move_a_late_update(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Replayed(time)
    first_updates(world, host_1=0.5)
    world.heartbeat("host-2", at=0.375, ticket=2, trains=1)
    assert arrivals(run(world, tmp_path, monkeypatch, ("host-1", 0.25))) == [("host-1", 0.25)]


def test_a_strict_replay_ends_with_the_recording_whatever_the_profile_says(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Replayed(time)
    first_updates(world, host_1=0.5)
    world.update("host-2", Train(ticket=2, version=0, sent=0.0, job=None, model=TinyTask().initial()), at=3.0, due=3.0)
    events = run(
        world, tmp_path, monkeypatch, ("host-1", 0.5), ("host-2", 3.0), settings=["stop={seconds = 1.0, versions = 1}"]
    )
    assert arrivals(events) == [("host-1", 0.5), ("host-2", 3.0)]
    assert ended(events) == "the recording is over"
    assert of(trace.Stopped, events)[0].t == pytest.approx(3.0, abs=SOON)


def test_a_recording_in_which_nothing_arrived_is_over_at_once(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = run(Replayed(time), tmp_path, monkeypatch)
    assert (ended(events), of(trace.Arrived, events)) == ("the recording is over", [])
    assert of(trace.Stopped, events)[0].t < 0.2


def test_a_heartbeat_does_not_give_up_an_upload_that_waits_for_its_recorded_arrival(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Replayed(time)
    first_updates(world, host_1=0.5)
    for moment in (0.625, 0.75, 0.875):
        world.heartbeat("host-1", at=moment, ticket=0, finished=1, trains=1)
    events = run(world, tmp_path, monkeypatch, ("host-1", 1.0))
    assert of(trace.Lost, events) == []
    assert arrivals(events) == [("host-1", 1.0)]


def test_a_replay_ends_with_a_reason_if_the_next_device_has_gone(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aggregator.connections.lost_devices.is_computing", lambda pid: False)
    world = Replayed(time)
    first_updates(world, host_1=0.5)
    for moment in range(1, 12):
        world.heartbeat("host-1", at=float(moment), ticket=3, trains=2)
    events = run(world, tmp_path, monkeypatch, ("host-1", 0.5), ("host-2", 0.75), settings=["presence.timeout=4"])
    assert [event.device for event in of(trace.Left, events)] == ["host-2"]
    assert ended(events) == "the recording has ticket 2 of host-2 next, but the device has gone"
    assert of(trace.Stopped, events)[0].t == pytest.approx(4.0, abs=0.5)


def test_a_device_that_has_gone_after_its_last_recorded_arrival_does_not_end_the_replay(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aggregator.connections.lost_devices.is_computing", lambda pid: False)
    world = Replayed(time)
    first_updates(world, host_2=0.5)
    world.update("host-1", Train(ticket=1, version=0, sent=0.0, job=None, model=TinyTask().initial()), at=8.0, due=8.0)
    for moment in range(1, 8):
        world.heartbeat("host-1", at=float(moment), ticket=1, trains=1)
    events = run(world, tmp_path, monkeypatch, ("host-2", 0.5), ("host-1", 0.75), settings=["presence.timeout=4"])
    assert [event.device for event in of(trace.Left, events)] == ["host-2"]
    assert ended(events) == "the recording is over"


def test_a_replay_ends_with_a_reason_if_the_next_device_has_no_job(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The strategy has another parameter than in the recorded run: this device will never send an update."""

    @dataclass(kw_only=True)
    class OnlyTheFirst(EveryUpdate):
        def on_start(self, server: Server) -> Decision:
            return Decision(train={"host-1": self.job("host-1", server)})

    world = Replayed(time)
    first_updates(world, host_1=0.5)
    for moment in range(1, 450):
        for device, ticket in (("host-1", 1), ("host-2", 0)):
            world.heartbeat(device, at=float(moment), ticket=ticket, finished=ticket, trains=ticket)
    events = run(world, tmp_path, monkeypatch, ("host-2", 0.75), ("host-1", 1.0), strategy=OnlyTheFirst())
    assert "host-2" in ended(events)


# ---- tickets that have ended


@dataclass(kw_only=True)
class Restarting(EveryUpdate):
    """Restarts host-1 at each update of host-2, although it is busy."""

    def on_update(self, update: Update, server: Server) -> Decision:
        decision = super().on_update(update, server)
        if update.device != "host-2":
            return decision
        return msgspec.structs.replace(decision, train=decision.train | {"host-1": self.job("host-1", server)})


def restarted(world: World, *, lost: bool = False, late: float = 0.0) -> None:
    """host-2 delivers at 0.5, so host-1 is restarted; its earlier update is still received and due at 0.625.

    Its second update is due at 1, or ``late`` seconds later. If its model is ``lost``, that is sent again first.
    """
    sent: list[int] = []

    def answer(device: str, train: Train) -> None:
        if device == "host-2" and train.version == 0:
            world.update(device, train, at=0.4375, due=0.5)
        elif device == "host-1" and train.version == 0:
            world.update(device, train, at=0.5625, due=0.625)
        elif device == "host-1":
            sent.append(train.ticket)
            if lost and len(sent) == 1:
                world.heartbeat(device, at=0.75, ticket=0, finished=1, trains=2)  # the new model has not arrived
            else:
                world.update(device, train, at=0.9375 + late, due=1.0 + late)

    world.on_train = answer


def test_an_update_of_an_ended_ticket_is_ignored_as_in_the_recorded_run(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Replayed(time)
    restarted(world)
    ordinary = test_main.run(world, tmp_path, monkeypatch, "stop.versions=2", strategy=Restarting())
    assert arrivals(ordinary) == [("host-2", 0.5), ("host-1", 1.0)]
    assert [event.ticket for event in of(trace.Ignored, ordinary)] == [1]

    (tmp_path / "again").mkdir()
    time.now = 200.0
    world = Replayed(time)
    restarted(world)
    again = run(world, tmp_path / "again", monkeypatch, *arrivals_of(ordinary), strategy=Restarting())
    assert arrivals(again) == arrivals(ordinary)


def test_an_update_of_an_ended_ticket_does_not_replace_a_late_one(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Replayed(time)
    restarted(world, late=0.25)
    events = run(world, tmp_path, monkeypatch, ("host-2", 0.5), ("host-1", 1.0, 4), strategy=Restarting())
    assert arrivals(events) == [("host-2", 0.5), ("host-1", 1.0)]


def test_an_outdated_update_does_not_hide_the_loss_of_the_next_model(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Replayed(time)
    restarted(world, lost=True)
    events = run(world, tmp_path, monkeypatch, ("host-2", 0.5), ("host-1", 1.0, 4), strategy=Restarting())
    assert [event.device for event in of(trace.Resent, events)] == ["host-1"]
    assert arrivals(events) == [("host-2", 0.5), ("host-1", 1.0)]


def test_an_unfit_update_has_a_recorded_arrival_too(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The strategy does not get it, so the recording has no arrived event, but it learns that the device is idle."""

    def answer(device: str, train: Train) -> None:
        if device != "host-1":
            return
        moment, broken = (0.5, True) if train.ticket == 1 else (1.0, False)
        delta = np.full(TinyTask.SIZE, np.nan if broken else 1.0, np.float32)
        world.at(
            moment - 0.0625,
            device,
            Update(
                device=device,
                ticket=train.ticket,
                version=train.version,
                delta=delta,
                samples=5,
                steps=1,
                started=0.0,
                finished=0.0,
                due=moment,
                loss=None,
                trains=1,
            ),
        )

    world = Replayed(time)
    world.on_train = answer
    ordinary = test_main.run(world, tmp_path, monkeypatch, "stop.versions=1")
    assert (arrivals(ordinary), len(of(trace.Rejected, ordinary))) == ([("host-1", 1.0)], 1)

    again, prepared = prepared_again(tmp_path, 1.5)
    time.now = 200.0
    world = Replayed(time)
    world.on_train = answer
    recorded = [(each.device, each.t, each.ticket) for each in read_arrivals(Path(prepared.arrivals))]
    assert recorded == [("host-1", 0.5, 1), ("host-1", 1.0, 3)]
    events = run(world, again, monkeypatch, *recorded, wakes=prepared.wakes)
    assert arrivals(events) == [("host-1", 1.0)]
    assert [event.t for event in of(trace.Rejected, events)] == [0.5]
    assert ended(events) == "the recording is over"


def prepared_again(folder: Path, seconds: float) -> tuple[Path, PreparedReplay]:
    """Return a folder for the replay of the run in ``folder``, and what was prepared from its trace."""
    again = folder / "again"
    again.mkdir()
    options = [f'replay={{trace = "{folder / "trace.jsonl"}", mode = "strict"}}', f"stop.seconds={seconds}"]
    return again, replay_setup.prepare(load(folder / "mine.toml", options), ["host-1", "host-2"], again / "replay")


# ---- wakes


@pytest.mark.parametrize("overslept", [0.0, 0.25])
@pytest.mark.parametrize(
    ("wake", "order"),
    [
        (0.5625, ["wake", "host-2", "host-1"]),
        (0.625, ["host-2", "wake", "host-1"]),
        (0.6875, ["host-2", "wake", "host-1"]),
        (0.8125, ["host-2", "host-1", "wake"]),
    ],
)
def test_a_wake_comes_between_the_same_arrivals_as_in_the_recorded_run(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overslept: float, wake: float, order: list[str]
) -> None:
    world, strategy = Replayed(time, overslept=overslept), Wakeful(wishes=[wake])
    first_updates(world, host_1=0.75, host_2=0.625)
    run(world, tmp_path, monkeypatch, ("host-2", 0.625), ("host-1", 0.75), wakes=1, strategy=strategy)
    moments = {"wake": wake, "host-1": 0.75, "host-2": 0.625}
    assert strategy.given == [(what, moments[what]) for what in order]


def test_a_wake_waits_for_the_update_that_preceded_it_in_the_recorded_run(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, strategy = Replayed(time), Wakeful(wishes=[0.375])
    first_updates(world, host_1=0.375)  # received at 0.5
    run(world, tmp_path, monkeypatch, ("host-1", 0.25), wakes=1, strategy=strategy)
    assert strategy.given == [("host-1", 0.25), ("wake", 0.375)]


def test_the_process_sleeps_while_a_wake_waits_for_an_update(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy loop would take the core from other processes."""
    world, strategy = Replayed(time), Wakeful(wishes=[0.375])
    first_updates(world, host_1=0.375)
    run(world, tmp_path, monkeypatch, ("host-1", 0.25), wakes=1, strategy=strategy)
    assert world.looks < 100


@pytest.mark.parametrize("due", [0.625, 0.75])
def test_an_update_that_is_due_after_a_wake_but_was_recorded_before_it_precedes_it(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, due: float
) -> None:
    """It is due late because a step was late. Neither of the two may wait for the other forever."""
    world, strategy = Replayed(time), Wakeful(wishes=[0.5625])
    first_updates(world, host_1=due)
    events = run(world, tmp_path, monkeypatch, ("host-1", 0.53125), wakes=1, strategy=strategy)
    assert strategy.given == [("host-1", 0.53125), ("wake", 0.5625)]
    assert ended(events) == "the recording is over"


@pytest.mark.parametrize("wakes", [0, 1, 2, 3])
def test_after_the_last_arrival_the_strategy_has_all_recorded_wakes(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wakes: int
) -> None:
    world, strategy = Replayed(time), Wakeful(wishes=[0.75, 1.0, 1.5, 2.0])
    first_updates(world, host_1=0.5)
    events = run(world, tmp_path, monkeypatch, ("host-1", 0.5), wakes=wakes, strategy=strategy)
    assert strategy.given == [("host-1", 0.5), *[("wake", moment) for moment in (0.75, 1.0, 1.5)[:wakes]]]
    assert ended(events) == "the recording is over"
    assert of(trace.Stopped, events)[0].wakes == wakes


# ---- the final broadcast


@dataclass(kw_only=True)
class TicksAndBroadcasts(Wakeful):
    broadcasts_final_model: ClassVar[bool] = True
    wishes: list[float | str] = field(default_factory=lambda: [0.25 * tick for tick in range(1, 100)])


def slow_finals(world: World, *, pending: bool = False) -> None:
    """host-1 delivers at 0.5. Both have the final model at 4. If ``pending``, host-2 delivers before that."""

    def answer(device: str, train: Train) -> None:
        if train.job is None:
            for moment in (4.0, 5.0):
                world.heartbeat(device, at=moment, finished=train.ticket, trains=3 if device == "host-1" else 2)
        elif device == "host-1" and train.ticket == 1:
            world.update(device, train, at=0.5, due=0.5)
        elif pending and device == "host-2":
            world.update(device, train, at=2.25, due=2.25)

    world.on_train = answer


def test_the_time_of_the_final_broadcast_is_not_replayed(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorded run ended at 2, and its trace at 4, when all devices had the model. Wakes came until 2."""
    world, strategy = Replayed(time), TicksAndBroadcasts()
    slow_finals(world)
    ordinary = test_main.run(world, tmp_path, monkeypatch, strategy=strategy)
    [stopped] = of(trace.Stopped, ordinary)
    assert (stopped.reason, stopped.t) == ("2 seconds are over", pytest.approx(4.0, abs=SOON))

    again, prepared = prepared_again(tmp_path, 2.0)
    time.now = 200.0
    world, second = Replayed(time), TicksAndBroadcasts()
    slow_finals(world)
    run(world, again, monkeypatch, *arrivals_of(ordinary), wakes=prepared.wakes, strategy=second)
    assert second.given == strategy.given


def test_an_update_without_a_recorded_arrival_does_not_hide_the_delivery_of_the_final_model(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, strategy = Replayed(time), TicksAndBroadcasts()
    slow_finals(world, pending=True)
    events = run(world, tmp_path, monkeypatch, ("host-1", 0.5), strategy=strategy)
    assert [event.device for event in of(trace.Delivered, events)] == ["host-1", "host-2"]
    assert ended(events) == "the recording is over"


# ---- mode schedule


def test_a_schedule_prescribes_no_order_and_ends_as_the_profile_says(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Replayed(time)
    first_updates(world, host_1=0.75, host_2=0.625)
    events = run(world, tmp_path, monkeypatch, ("host-1", 0.25), ("host-2", 0.5), mode="schedule")
    assert arrivals(events) == [("host-2", 0.625), ("host-1", 0.75)]
    assert (ended(events), of(trace.Header, events)[0].replay) == ("2 seconds are over", "schedule")


@pytest.mark.parametrize(
    ("end", "reason"), [("stop", "the recording of host-1 is used up"), ("loop", "2 seconds are over")]
)
def test_a_schedule_may_end_with_the_recording_of_a_device(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, reason: str
) -> None:
    world = Replayed(time)
    world.on_train = lambda device, train: (
        world.update(device, train, at=train.sent + 0.25, due=train.sent + 0.25) if device == "host-1" else None
    )
    events = run(world, tmp_path, monkeypatch, mode="schedule", end=end, jobs={"host-1": 3, "host-2": 1})
    assert ended(events) == reason
    if end == "stop":
        assert [t for _, t in arrivals(events)] == pytest.approx([0.25, 0.5, 0.75], abs=SOON)
        assert of(trace.Stopped, events)[0].t == pytest.approx(0.75, abs=SOON)


def test_a_job_whose_upload_was_given_up_is_a_job_of_the_recording_too(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are three recorded jobs: the run ends after the third, however many updates arrived."""
    world = Replayed(time)

    def answer(device: str, train: Train) -> None:
        if device != "host-1":
            return
        jobs = sum(peer == device and isinstance(message, Train) for peer, message in world.said)
        if jobs == 2:
            world.heartbeat(device, at=train.sent + 0.25, ticket=0, finished=train.ticket, trains=jobs)
        else:
            world.update(device, train, at=train.sent + 0.25, due=train.sent + 0.25)

    world.on_train = answer
    events = run(world, tmp_path, monkeypatch, mode="schedule", end="stop", jobs={"host-1": 3, "host-2": 1})
    assert [event.device for event in of(trace.Lost, events)] == ["host-1"]
    assert ended(events) == "the recording of host-1 is used up"
    assert [t for _, t in arrivals(events)] == pytest.approx([0.25, 0.75], abs=SOON)


# ---- found in review


def test_an_update_has_the_times_of_its_recorded_computing() -> None:
    """AFL uses them: a late step in the replay must not change its decisions."""
    waiting = RecordedOrder([RecordedArrival("a", 1, 2.0, 0.25, 1.75)], wakes=0)
    waiting.add(update("a"), received=0.5)
    found = waiting.pop(2.0, math.inf)
    assert found is not None
    assert (found[0].started, found[0].finished) == (0.25, 1.75)


def test_an_update_that_was_superseded_while_it_waited_is_ignored_and_recorded(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was received early; in the recorded run it was received after its ticket had ended."""
    world = Replayed(time)

    def answer(device: str, train: Train) -> None:
        if train.version == 0:
            world.update(device, train, at=0.25, due=0.25)
        elif device == "host-1":
            world.heartbeat(device, at=0.75, ticket=train.ticket, finished=1, trains=2)
            world.update(device, train, at=0.9375, due=1.0)

    world.on_train = answer
    events = run(world, tmp_path, monkeypatch, ("host-2", 0.5), ("host-1", 1.0, 4), strategy=Restarting())
    assert [event.ticket for event in of(trace.Ignored, events)] == [1]
    assert arrivals(events) == [("host-2", 0.5), ("host-1", 1.0)]


def test_after_a_replay_has_left_the_recording_events_count_from_now(
    time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aggregator.connections.lost_devices.is_computing", lambda pid: False)
    world, strategy = Replayed(time), TicksAndBroadcasts()
    slow_finals(world)
    for moment in range(1, 40):
        world.heartbeat("host-1", at=float(moment), ticket=0, finished=99, trains=9)
    events = run(
        world,
        tmp_path,
        monkeypatch,
        ("host-1", 0.5),
        ("host-2", 0.75),
        strategy=strategy,
        settings=["presence.timeout=4"],
    )
    moments = [event.t for event in of(trace.Dispatched, events) + of(trace.Left, events) + of(trace.Delivered, events)]
    late = [moment for moment in moments if moment > 1.0]
    assert ended(events) == "the recording has ticket 2 of host-2 next, but the device has gone"
    assert late == sorted(late)
