"""The messages of a device to the aggregator when it has many events."""

from __future__ import annotations

from typing import Any

from devices.process.outbox import Outbox
from testbed.history.trace import DeviceEvent, Suspended
from testbed.wire.messages import MOST_EVENTS, STOPPED, Heartbeat, Message


class Listener:
    """Peer, device and cluster in one: it has some events, and records the messages."""

    def __init__(self, events: int) -> None:
        self.sent: list[Any] = []
        self._events: tuple[DeviceEvent, ...] = tuple(
            Suspended(t=1.0, device="a", ticket=number, asked=0.5, obtained=0.5) for number in range(events)
        )

    def send(self, message: Message, timeout: float) -> None:
        self.sent.append(message)

    def heartbeat(self, now: float = 0.0) -> Heartbeat:
        events, self._events = self._events, ()
        return Heartbeat(device="a", state="idle", events=events)

    def for_aggregator(self, heartbeat: Heartbeat) -> Heartbeat:
        return heartbeat

    def head_reports(self) -> list[object]:
        return []

    def leave(self) -> None:
        assert self.sent == []


def test_more_events_than_fit_go_with_the_next_message() -> None:
    listener = Listener(MOST_EVENTS + 3)
    outbox: Any = Outbox(listener, listener, listener)  # type: ignore[arg-type]
    outbox.send_heartbeat(1.0)
    outbox.send_heartbeat(1.0)
    assert [len(heartbeat.events) for heartbeat in listener.sent] == [MOST_EVENTS, 3]


def test_the_last_heartbeat_comes_after_all_other_events_were_sent() -> None:
    listener = Listener(2 * MOST_EVENTS + 3)
    outbox: Any = Outbox(listener, listener, listener)  # type: ignore[arg-type]
    outbox.send_last_heartbeat(STOPPED)
    assert [(heartbeat.state, len(heartbeat.events)) for heartbeat in listener.sent] == [
        ("idle", MOST_EVENTS),
        ("idle", MOST_EVENTS),
        (STOPPED, 3),
    ]
    numbers = [event.ticket for heartbeat in listener.sent for event in heartbeat.events]
    assert numbers == list(range(2 * MOST_EVENTS + 3))
