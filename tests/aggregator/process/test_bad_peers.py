"""Known peers that misbehave: the aggregator process refuses, counts and continues."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from testbed.history import trace
from testbed.wire.codec import BadMessage, Buffer, decode, encode
from testbed.wire.connection_monitor import CUT_OFF
from testbed.wire.messages import MOST_EVENTS, Heartbeat, Hello, Message, Refused, Train
from testbed.wire.sockets import Incoming
from tests.aggregator.process.test_main import World, folder, of, prepare, run, time
from tests.devices.parts import Time

__all__ = ["folder", "time"]  # fixtures


def test_an_update_that_is_sent_again_before_it_is_due_counts_once(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time)

    def answer(device: str, train: Train) -> None:
        if train.version == 0 and device == "host-1":
            for moment in (0.5, 0.51, 0.52):
                world.update(device, train, at=moment, due=0.625)

    world.on_train = answer
    events = run(world, folder, monkeypatch)
    assert [event.device for event in of(trace.Arrived, events)] == ["host-1"]
    [applied] = of(trace.Aggregated, events)
    assert of(trace.Ignored, events) == []
    assert {(event.peer, event.reason) for event in of(trace.Refusal, events)} == {
        ("host-1", f"Update of ticket {applied.tickets[0]}, which is here already")
    }
    assert sum(event.count for event in of(trace.Refusal, events)) == 2


def test_a_hello_of_another_process_is_refused_while_the_first_is_alive(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time)
    world.at(0.5, "host-1", Hello(device="host-1", pid=os.getppid(), cores=(1,), samples=5))
    events = run(world, folder, monkeypatch)
    reason = f"a Hello of another process, while process {os.getpid()} is alive"
    assert [(event.peer, event.reason) for event in of(trace.Refusal, events)] == [("host-1", reason)]
    assert ("host-1", Refused(reason=reason)) in world.said
    assert [event.device for event in of(trace.Joined, events)] == ["host-1", "host-2"]
    assert of(trace.Left, events) == []


def test_a_peer_that_sends_too_much_is_answered_once_a_second_and_counted(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time)
    for number in range(100):
        world.heartbeat("host-1", 0.5 + number * 1e-6)
        world.heartbeat("host-2", 0.5 + number * 0.01)
    events = run(world, folder, monkeypatch, "transport.message_limit=50")
    refused = [(event.peer, event.count) for event in of(trace.Refusal, events) if "more than 50" in event.reason]
    assert {peer for peer, _ in refused} == {"host-1", "host-2"}  # 100 a second are too many in the long run
    assert sum(count for peer, count in refused if peer == "host-1") == pytest.approx(50, abs=3)
    assert sum(count for peer, count in refused if peer == "host-2") < 10
    answered = [peer for peer, message in world.said if isinstance(message, Refused)]
    assert answered.count("host-1") == 1
    assert of(trace.Stopped, events)[0].reason


def test_connections_are_counted_and_those_of_processes_that_have_ended_are_not(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, strange = World(time), ("stranger/", "a handshake that failed")
    peers = prepare(world, folder, monkeypatch)._peers
    monkeypatch.setattr("aggregator.connections.peers.is_computing", lambda pid: pid != 20)
    for name, pid in (("host-1", 10), ("host-2", 20)):
        peers.read(name, encode(Hello(device=name, pid=pid, cores=(1,), samples=5)))
    news = [Counter({strange: 2, ("host-1", CUT_OFF): 1, ("host-2", CUT_OFF): 1})]
    monkeypatch.setattr(world, "rejected_connections", lambda: news.pop() if news else Counter())
    # forked again: the connection that had ended was that of the earlier process
    peers.read("host-2", encode(Hello(device="host-2", pid=30, cores=(1,), samples=5)))
    assert peers.rejected_connections() == {strange: 2, ("host-1", CUT_OFF): 1}
    assert peers.rejected_connections() == {}


def test_a_message_with_more_events_than_a_device_sends_at_once_is_refused() -> None:
    event = trace.Suspended(t=1.0, device="a", ticket=1, asked=0.5, obtained=0.5)
    fits = Heartbeat(device="a", state="idle", events=(event,) * MOST_EVENTS)
    assert decode(encode(fits), 0) == fits
    with pytest.raises(BadMessage, match="Expected `array` of length <= 1000"):
        decode(encode(Heartbeat(device="a", state="idle", events=(event,) * (MOST_EVENTS + 1))), 0)


def test_an_unforeseen_exception_while_a_message_is_read_is_a_refusal_and_is_logged_once(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(time)
    for number in range(5):
        world.heartbeat("host-1", 0.5 + number * 0.01)
    process = prepare(world, folder, monkeypatch)
    read = process._peers.read

    def broken(peer: str, frames: list[Buffer]) -> Message:
        message = read(peer, frames)
        if isinstance(message, Heartbeat) and 0.5 <= time.now - process._intake.clock.origin < 0.6:
            raise ZeroDivisionError("my \x1b[31mown bug")
        return message

    monkeypatch.setattr(process._peers, "read", broken)
    monkeypatch.setattr("testbed.wire.codec._logged", set())
    process.run()
    events = list(trace.read(folder / "trace.jsonl"))
    refusals = of(trace.Refusal, events)
    assert {event.reason for event in refusals} == {"it could not be read (ZeroDivisionError: my \\x1b[31mown bug)"}
    assert sum(event.count for event in refusals) == 5
    assert capsys.readouterr().err.count("ZeroDivisionError: my") == 1
    assert of(trace.Stopped, events)


def test_a_message_whose_sender_cannot_be_told_is_a_refusal(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time)
    process = prepare(world, folder, monkeypatch)
    receive, raised = process._peers.receive, []

    def broken(timeout: float) -> Incoming | None:
        if process._intake.running and len(raised) < 3:
            raised.append(timeout)
            raise BadMessage("it could not be read (ZMQError: Invalid argument)")
        return receive(timeout)

    monkeypatch.setattr(process._peers, "receive", broken)
    process.run()
    refusals = of(trace.Refusal, list(trace.read(folder / "trace.jsonl")))
    assert sum(event.count for event in refusals) == 3
    assert {event.peer for event in refusals} == {"stranger/"}
