"""The cursor over a trace."""

from __future__ import annotations

from testbed.verification.trace_cursor import TraceCursor
from tests.testbed.examples import EVENTS


def test_a_look_ahead_does_not_move_the_cursor() -> None:
    cursor = TraceCursor(EVENTS[:4])
    assert cursor.advance() is EVENTS[0]
    assert list(cursor.ahead()) == list(EVENTS[1:4])
    assert next(cursor.ahead()) is EVENTS[1]
    assert (cursor.event, cursor.line) == (EVENTS[0], 1)
    assert [cursor.advance() for _ in range(3)] == list(EVENTS[1:4])
    assert (cursor.advance(), cursor.event, cursor.line) == (None, None, 5)


def test_an_interrupted_look_ahead_loses_no_event() -> None:
    cursor = TraceCursor(EVENTS[:4])
    cursor.advance()
    assert next(cursor.ahead()) is EVENTS[1]
    assert cursor.advance() is EVENTS[1]
    assert list(cursor.ahead()) == list(EVENTS[2:4])
