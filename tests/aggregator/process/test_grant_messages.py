"""Requests for grants in the aggregator process, and messages that a device may not send."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed.history import trace
from testbed.wire.messages import Ask, Grant, Message, Refused, Train
from tests.aggregator.engine.test_grants import OnRequest
from tests.aggregator.process.test_main import SOON, World, of, run
from tests.devices.parts import Time


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    own = Time()
    monkeypatch.setattr("testbed.common.clock.time", own)
    return World(own)


GRANTED: Any = trace.Granted(t=0.0, device="host-1", ticket=1, rate=1e9, share=1.0)


def says(world: World, message: Message, at: float = 0.25) -> None:
    world.at(at, "host-1", message)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Grant(ticket=1, rate=1e9, sent=0.0), "Grant, which this device may not send"),
        (Ask(device="host-2", ticket=2, due=0.25), "Ask, which this device may not send"),
        (Ask(device="host-1", ticket=1, due=9.0), "a request that is due long after it was sent"),
        (
            Ask(device="host-1", ticket=1, due=0.25, events=(GRANTED,)),
            "Ask: Invalid value 'granted' - at `$.events[0].kind`",
        ),
    ],
)
def test_a_message_that_a_device_may_not_send_is_refused_and_traced(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: Message, reason: str
) -> None:
    says(world, message)
    events = run(world, tmp_path, monkeypatch, strategy=OnRequest())
    assert [(event.peer, event.reason) for event in of(trace.Refusal, events)] == [("host-1", reason)]
    assert ("host-1", Refused(reason=reason)) in world.said
    assert of(trace.Granted, events) == of(trace.Asked, events) == []


def test_a_request_is_handled_when_it_is_due_and_not_before(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(device: str, train: Train) -> None:
        if device == "host-1" and train.ticket <= 2:
            says(world, Ask(device=device, ticket=train.ticket, due=0.625), at=0.5)
            world.heartbeat(device, at=0.55, ticket=train.ticket, finished=train.ticket, trains=1, state="waiting")

    world.on_train = answer
    events = run(world, tmp_path, monkeypatch, strategy=OnRequest())
    [asked], [granted] = of(trace.Asked, events), of(trace.Granted, events)
    assert (asked.due, asked.received) == (0.625, pytest.approx(0.5, abs=SOON))
    assert 0.625 <= asked.t == granted.t <= 0.625 + SOON
    assert [message.sent for _, message in world.said if isinstance(message, Grant)] == [granted.t]
    assert sum(event.served for event in of(trace.Load, events)) == 0  # no update


def test_a_request_for_a_ticket_that_has_ended_is_ignored(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(world, Ask(device="host-1", ticket=99, due=0.25))
    events = run(world, tmp_path, monkeypatch, strategy=OnRequest())
    assert [(event.device, event.ticket) for event in of(trace.Ignored, events)] == [("host-1", 99)]
