"""What a device says to the aggregator when it has much to tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devices.process.outbox import Outbox
from testbed.wire.codec import Buffer, decode
from testbed.wire.messages import MOST_EVENTS, STOPPED, Heartbeat


class Listener:
    """Everybody whom it talks to, and what it has to tell."""

    def __init__(self, events: int) -> None:
        self.told: list[Any] = []
        self._events: tuple[dict[str, object], ...] = tuple({"number": number} for number in range(events))

    def send(self, frames: Sequence[Buffer], timeout: float) -> None:
        self.told.append(decode(frames, 0))

    def beat(self) -> Heartbeat:
        events, self._events = self._events, ()
        return Heartbeat(device="a", state="idle", events=events)

    def for_aggregator(self, beat: Heartbeat) -> Heartbeat:
        return beat

    def ledgers(self) -> list[object]:
        return []

    def leave(self) -> None:
        assert self.told == []


def test_more_events_than_fit_go_with_the_next_message() -> None:
    listener = Listener(MOST_EVENTS + 3)
    telling: Any = Outbox(listener, listener, listener)  # type: ignore[arg-type]
    telling.beat()
    telling.beat()
    assert [len(beat.events) for beat in listener.told] == [MOST_EVENTS, 3]


def test_the_last_word_comes_after_everything_else_was_told() -> None:
    listener = Listener(2 * MOST_EVENTS + 3)
    telling: Any = Outbox(listener, listener, listener)  # type: ignore[arg-type]
    telling.last_word(STOPPED)
    assert [(beat.state, len(beat.events)) for beat in listener.told] == [
        ("idle", MOST_EVENTS),
        ("idle", MOST_EVENTS),
        (STOPPED, 3),
    ]
    numbers = [event["number"] for beat in listener.told for event in beat.events]
    assert numbers == list(range(2 * MOST_EVENTS + 3))
