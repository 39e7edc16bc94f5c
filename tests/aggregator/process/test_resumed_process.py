"""The aggregator process of a run that resumes, with a scripted transport and a clock that moves while it waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.process import checkpoint
from aggregator.process.aggregator_config import Resumption
from testbed.common.errors import UserError
from testbed.history import trace
from testbed.wire.messages import Train
from tests.aggregator.process.test_main import World, folder, of, prepare, run, time
from tests.devices.parts import Time

__all__ = ["folder", "time"]
KILLED_EARLY = 'events=[{at = 0.5, device = "host-1", do = "kill"}]'


def answering(world: World) -> World:
    """Let every job be finished a quarter of a second after it was sent; heartbeats report it."""

    def answer(device: str, train: Train) -> None:
        world.update(device, train, at=train.sent + 0.25, due=train.sent + 0.25)

    world.on_train = answer
    return world


def going_on(folder: Path, dead: frozenset[str] = frozenset()) -> Resumption:
    return Resumption(at=checkpoint.saved(folder).at, dead=dead)


def test_a_resumed_run_continues_versions_tickets_and_time(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = run(answering(World(time)), folder, monkeypatch, "checkpoint.versions=1")
    prepare(answering(World(time)), folder, monkeypatch, "stop.seconds=4.0", resume=going_on(folder)).run()
    events = list(trace.read(folder / "trace.jsonl"))
    assert len(of(trace.Header, events)) == len(of(trace.Resumed, events)) == len(of(trace.Stopped, events)) == 1
    [resumed], [stopped] = of(trace.Resumed, events), of(trace.Stopped, events)
    assert resumed.t == pytest.approx(2.0, abs=0.05)
    assert stopped.t == pytest.approx(4.0, abs=0.05)
    made = [event.version for event in of(trace.Aggregated, events)]
    assert made == list(range(1, len(made) + 1))
    assert len(made) > len(of(trace.Aggregated, before)) == resumed.version
    tickets = [event.ticket for event in of(trace.Dispatched, events)]
    assert tickets == list(range(1, len(tickets) + 1))
    assert {event.ticket for event in of(trace.Resent, events)} == {
        event.ticket for event in of(trace.Dispatched, before)
    } - {ticket for event in of(trace.Aggregated, before) for ticket in event.tickets}


def test_a_device_that_the_script_had_killed_is_dropped_after_its_silence(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = (KILLED_EARLY, "presence.timeout=1.0", "presence.heartbeat=0.1", "checkpoint.versions=1")
    world = World(time)  # both are busy, and stay so
    for tenth in range(1, 7):
        world.heartbeat("host-2", tenth / 10, state="training", ticket=2, trains=1)
    run(world, folder, monkeypatch, *settings, "stop.seconds=0.7", "checkpoint.seconds=0.1")
    without = World(time, devices=("host-2",))
    for tenth in range(7, 30):
        without.heartbeat("host-2", tenth / 10, state="training", ticket=2, trains=1)
    resume = going_on(folder, dead=frozenset({"host-1"}))
    prepare(without, folder, monkeypatch, *settings, "stop.seconds=3.0", resume=resume).run()
    left = of(trace.Left, list(trace.read(folder / "trace.jsonl")))
    assert [(event.device, event.reason) for event in left] == [("host-1", "it was silent for too long")]
    assert left[0].t > resume.at + 0.9


def test_a_run_that_is_interrupted_before_it_resumes_changes_nothing(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(answering(World(time)), folder, monkeypatch)
    before = (folder / "trace.jsonl").read_bytes()
    process = prepare(answering(World(time)), folder, monkeypatch, "stop.seconds=4.0", resume=going_on(folder))
    process.stop("interrupted")
    process.run()
    assert (folder / "trace.jsonl").read_bytes() == before
    assert not list(folder.glob("undone*"))


def test_a_checkpoint_of_another_strategy_is_refused_and_nothing_is_rolled_back(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(answering(World(time)), folder, monkeypatch)
    before = (folder / "trace.jsonl").read_bytes()
    resume = going_on(folder)
    (folder / checkpoint.CHECKPOINT).write_bytes(b"no state at all")
    with pytest.raises(UserError, match="not a state file"):
        prepare(answering(World(time)), folder, monkeypatch, resume=resume)
    assert (folder / "trace.jsonl").read_bytes() == before


def test_a_device_that_counts_as_dead_and_sends_without_a_hello_is_refused(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(answering(World(time)), folder, monkeypatch)
    world = answering(World(time, devices=("host-2",)))
    world.heartbeat("host-1", 2.5)
    resume = going_on(folder, dead=frozenset({"host-1"}))
    prepare(world, folder, monkeypatch, "stop.seconds=4.0", resume=resume).run()
    refused = of(trace.Refusal, list(trace.read(folder / "trace.jsonl")))
    assert ("host-1", "it has not said hello") in [(event.peer, event.reason) for event in refused]
