"""Devices that the script kills and lets rejoin, as the aggregator sees them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aggregator.connections.scripted_deaths import ScriptedDeaths
from testbed.history import trace
from testbed.profile.schema import ScriptedEvent
from testbed.wire.messages import KILLED, Hello, Message, Train
from testbed.wire.sockets import PeerUnreachable
from tests.aggregator.process.test_main import SOON, World, folder, of, run, time
from tests.devices.parts import Time
from tests.testbed.examples import device_spec

__all__ = ["folder", "time"]  # fixtures

PRESENCE = ("presence.heartbeat=0.1", "presence.timeout=0.5")


def script(*events: tuple[float, str]) -> str:
    rows = ", ".join(f'{{ at = {at}, device = "host-1", do = "{do}" }}' for at, do in events)
    return f"events=[{rows}]"


def lively(world: World, *, until: float) -> None:
    """Send heartbeats of both devices, each in its first job; those of host-1 end early."""
    for name, end, ticket in (("host-1", until, 1), ("host-2", 2.0, 2)):
        for tenth in range(1, int(end * 10) + 1):
            world.heartbeat(name, tenth / 10 - 0.01, state="training", ticket=ticket, trains=1)


def test_a_scripted_kill_is_recorded_at_its_moment_and_the_device_is_dropped_after_the_timeout(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time)
    lively(world, until=0.4)
    spent = trace.Abandoned(t=0.5, device="host-1", ticket=1, steps=3, seconds=0.25, checks=0, misses=[])
    world.heartbeat("host-1", 0.5, state=KILLED, events=(spent,))
    events = run(world, folder, monkeypatch, script((0.5, "kill")), *PRESENCE)
    assert of(trace.Scripted, events) == [trace.Scripted(t=0.5, device="host-1", do="kill")]
    assert of(trace.Abandoned, events) == [spent]
    # its last message was at 0.39; its process still runs
    [left] = of(trace.Left, events)
    assert (left.device, left.reason) == ("host-1", "it was silent for too long")
    assert left.t == pytest.approx(0.89, abs=0.11)
    [lost] = of(trace.Lost, events)
    assert (lost.ticket, lost.t) == (1, left.t)
    [stopped] = of(trace.Stopped, events)
    assert (stopped.in_flight, stopped.silent) == (1, [])


def test_a_device_that_is_dead_at_the_end_is_not_reported_as_silent(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time)
    lively(world, until=1.8)
    world.heartbeat("host-1", 1.9, state=KILLED)
    events = run(world, folder, monkeypatch, script((1.9, "kill")), *PRESENCE)
    assert [event.do for event in of(trace.Scripted, events)] == ["kill"]
    [stopped] = of(trace.Stopped, events)
    assert (stopped.in_flight, stopped.silent) == (2, [])


@pytest.mark.parametrize("last_word", [True, False])
def test_a_device_that_rejoins_continues_with_the_number_of_the_next_job(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch, last_word: bool
) -> None:
    world = World(time)
    lively(world, until=0.4)
    if last_word:
        world.heartbeat("host-1", 0.5, state=KILLED)
    monkeypatch.setattr(
        "aggregator.connections.peers.is_computing", lambda pid: False
    )  # the processes are ours, and alive
    # the clock of the run begins a moment after that of the world
    world.at(0.75 + SOON, "host-1", Hello(device="host-1", pid=os.getppid(), cores=(1,), samples=5))
    events = run(world, folder, monkeypatch, script((0.5, "kill"), (0.75, "rejoin")), "presence.timeout=10")
    seen = [(type(event).__name__, getattr(event, "device", None), event.t) for event in events]
    kinds = [kind for kind, device, moment in seen if device == "host-1" and moment > 0]
    assert kinds == ["Scripted", "Scripted", "Left", "Lost", "Joined", "Dispatched"]
    killed, rejoined = of(trace.Scripted, events)
    assert (killed.do, killed.t, rejoined.do) == ("kill", 0.5, "rejoin")
    assert rejoined.t == pytest.approx(0.75 + SOON, abs=SOON)
    assert [event.reason for event in of(trace.Lost, events)] == ["it was restarted"]
    assert [event.pid for event in of(trace.Joined, events) if event.device == "host-1"] == [os.getpid(), os.getppid()]
    assert [said.number for peer, said in world.said if peer == "host-1" and isinstance(said, Train)] == [0, 1]


def test_a_message_to_a_killed_device_is_lost_without_an_error(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one host the transport reports it at once; a network would not."""
    world = World(time)
    lively(world, until=0.4)
    world.heartbeat("host-1", 0.5, state=KILLED)
    send = world.send

    def unreachable(peer: str, frames: list[bytes]) -> None:
        if peer == "host-1" and world.time.now - world._origin > 0.5:
            raise PeerUnreachable(peer)
        send(peer, frames)

    monkeypatch.setattr(world, "send", unreachable)
    # a strategy with rounds sends to both after the living device has answered
    first: list[Message] = []

    def answer(device: str, train: Train) -> None:
        if not first and device == "host-2":
            first.append(train)
            world.update(device, train, at=0.6, due=0.6)

    world.on_train = answer
    events = run(world, folder, monkeypatch, script((0.5, "kill")), "strategy=fedbuff", "strategy.k=1", *PRESENCE)
    reasons = {event.reason for event in of(trace.Left, events)}
    assert reasons == {"it was silent for too long"}


# ---- ScriptedDeaths alone


def deaths(*events: tuple[float, str], device: str = "a-1") -> tuple[ScriptedDeaths, list[trace.Event]]:
    spec, recorded = device_spec(device), list[trace.Event]()
    own = tuple(ScriptedEvent(at=at, device=device, do=do) for at, do in events)
    object.__setattr__(spec, "script", own)
    return ScriptedDeaths([spec], recorded.append), recorded


def test_a_kill_is_recorded_when_it_is_due_and_has_happened() -> None:
    deaths_of_script, recorded = deaths((5.0, "kill"), (9.0, "rejoin"), (20.0, "kill"))
    deaths_of_script.record_kills(4.0, lambda device: True)  # it has died by itself before the scripted kill
    deaths_of_script.record_kills(6.0, lambda device: False)
    assert recorded == []
    deaths_of_script.record_kills(6.5, lambda device: True)
    deaths_of_script.record_kills(7.0, lambda device: True)
    assert recorded == [trace.Scripted(t=5.0, device="a-1", do="kill")]
    deaths_of_script.record_rejoin("a-1", 9.25)
    assert recorded[1:] == [trace.Scripted(t=9.25, device="a-1", do="rejoin")]
    deaths_of_script.record_kills(30.0, lambda device: True)
    assert [event.t for event in recorded] == [5.0, 9.25, 20.0]


def test_a_kill_that_was_not_noticed_is_recorded_when_the_device_rejoins() -> None:
    deaths_of_script, recorded = deaths((5.0, "kill"), (5.5, "rejoin"))
    deaths_of_script.record_rejoin("a-1", 5.75)
    assert [(event.t, event.do) for event in recorded if isinstance(event, trace.Scripted)] == [
        (5.0, "kill"),
        (5.75, "rejoin"),
    ]


def test_a_device_without_a_script_may_rejoin_at_any_time() -> None:
    deaths_of_script, recorded = deaths()
    deaths_of_script.record_rejoin("a-1", 5.75)
    deaths_of_script.record_rejoin("stranger", 5.75)
    assert recorded == []
