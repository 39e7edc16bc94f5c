"""The events in messages: those that devices, cluster heads and canaries report are read, all others are refused."""

from __future__ import annotations

import json
import math
from typing import Any

import msgpack
import msgspec
import pytest

from testbed.history import trace
from testbed.wire.codec import SCHEMA, BadMessage, decode, encode
from testbed.wire.messages import MOST_EVENTS, Ask, CanaryReport, HeadReport, Heartbeat, Message
from tests.testbed.examples import EVENTS

HEARTBEAT = Heartbeat(device="a", state="idle")
REPORT = HeadReport(device="a", ticket_range=1, events=())
FOR_DEVICES = [event for event in EVENTS if isinstance(event, trace.DeviceEvent)]
FOR_HEADS = [event for event in EVENTS if isinstance(event, trace.HeadEvent)]
CANARY = next(event for event in EVENTS if isinstance(event, trace.Canary))
TRAINED: dict[str, Any] = {
    "kind": "trained",
    "t": 2.5,
    "device": "a",
    "ticket": 1,
    "steps": 10,
    "asked": 1.0,
    "obtained": 1.1,
    "checks": 2,
    "misses": [[2, 0.5, 0.1]],
}


def name_of(event: trace.Event) -> str:
    return type(event).__name__


def sent(message: Message, **fields: Any) -> Message:
    """The message after encoding and decoding, with other values in some fields."""
    header = msgpack.unpackb(bytes(encode(message)[0][1:])) | fields
    return decode([bytes([SCHEMA]) + msgpack.packb(header)], 0)


def heartbeat_with(event: Any) -> Heartbeat:
    message = sent(HEARTBEAT, events=[event])
    assert isinstance(message, Heartbeat)
    return message


@pytest.mark.parametrize("event", FOR_DEVICES, ids=name_of)
def test_events_of_devices_are_read(event: trace.DeviceEvent) -> None:
    for message in (
        msgspec.structs.replace(HEARTBEAT, events=(event,)),
        Ask(device="a", ticket=1, due=0.0, events=(event,)),
    ):
        assert sent(message) == message


@pytest.mark.parametrize("event", FOR_HEADS, ids=name_of)
def test_events_of_cluster_heads_are_read(event: trace.HeadEvent) -> None:
    message = msgspec.structs.replace(REPORT, events=(event,))
    assert sent(message) == message


@pytest.mark.parametrize("event", [event for event in EVENTS if event not in FOR_DEVICES], ids=name_of)
def test_events_of_others_are_refused_from_a_device(event: trace.Event) -> None:
    with pytest.raises(BadMessage, match=f"Heartbeat: Invalid value '{name_of(event).lower()}' - at .*events"):
        decode(encode(msgspec.structs.replace(HEARTBEAT, events=(event,))), 0)


@pytest.mark.parametrize("event", [event for event in EVENTS if event not in FOR_HEADS], ids=name_of)
def test_events_of_others_are_refused_from_a_cluster_head(event: trace.Event) -> None:
    with pytest.raises(BadMessage, match=f"HeadReport: Invalid value '{name_of(event).lower()}' - at .*events"):
        decode(encode(msgspec.structs.replace(REPORT, events=(event,))), 0)


@pytest.mark.parametrize("event", [event for event in EVENTS if event is not CANARY], ids=name_of)
def test_events_of_others_are_refused_from_a_canary(event: Any) -> None:
    with pytest.raises(BadMessage, match=r"CanaryReport: Invalid value .* - at `\$.event.kind`"):
        decode(encode(CanaryReport(event=event)), 0)


def test_an_integer_is_read_as_seconds() -> None:
    [event] = heartbeat_with(TRAINED | {"asked": 1}).events
    assert json.loads(msgspec.json.encode(event)) == TRAINED | {"asked": 1.0, "use": None}
    assert isinstance(event, trace.Trained)
    assert type(event.asked) is float


@pytest.mark.parametrize(
    "changes",
    [
        {"t": math.nan},
        {"obtained": math.inf},
        {"obtained": None},
        {"obtained": True},
        {"obtained": 1e301},
        {"misses": [[2, 0.5]]},
        {"misses": [[2, 0.5, math.nan]]},
        {"misses": [[2, 0.0, 0.1]]},  # it is a divisor
        {"misses": None},
        {"use": {"cpu": 1.0, "waited": 0.5}},
        {"use": {"cpu": 1.0, "waited": 0.5, "stolen": math.inf}},
        {"ticket": True},
        {"ticket": 1.0},
        {"ticket": "1"},
        {"device": 5},
        {"device": b"a"},
        {"kind": None},
        {"kind": ["trained"]},
        {"kind": "Trained"},
        {"kind": "Stop"},
        {"extra": 1},
        {1: 1},
    ],
)
def test_an_event_with_a_wrong_field_is_refused(changes: dict[Any, Any]) -> None:
    with pytest.raises(BadMessage, match="Heartbeat: "):
        heartbeat_with(TRAINED | changes)


@pytest.mark.parametrize("missing", TRAINED)
def test_an_event_without_one_of_its_fields_is_refused(missing: str) -> None:
    with pytest.raises(BadMessage, match=f"missing required field `{missing}`"):
        heartbeat_with({key: value for key, value in TRAINED.items() if key != missing})


@pytest.mark.parametrize("event", [1, "trained", None, [], [TRAINED], {}, b""])
def test_something_else_than_an_event_is_refused(event: object) -> None:
    with pytest.raises(BadMessage, match="Heartbeat: "):
        heartbeat_with(event)


def test_a_canary_that_took_no_time_alone_is_refused() -> None:
    assert sent(CanaryReport(event=CANARY)) == CanaryReport(event=CANARY)
    with pytest.raises(BadMessage, match="alone"):
        sent(CanaryReport(event=msgspec.structs.replace(CANARY, alone=0.0)))  # it is a divisor


@pytest.mark.parametrize("message", [HEARTBEAT, REPORT, Ask(device="a", ticket=1, due=0.0)], ids=name_of)
def test_more_events_than_fit_into_a_message_are_refused(message: Any) -> None:
    event = trace.Lost(t=1.0, device="a", ticket=1, reason="") if message is REPORT else FOR_DEVICES[0]
    fits = msgspec.structs.replace(message, events=(event,) * MOST_EVENTS)
    assert sent(fits) == fits
    with pytest.raises(BadMessage, match=f"Expected `array` of length <= {MOST_EVENTS}"):
        sent(msgspec.structs.replace(message, events=(event,) * (MOST_EVENTS + 1)))
