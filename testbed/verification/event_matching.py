"""Whether a recorded event is the one that the engine made, and in words what differs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from testbed.history.trace import Event
from testbed.verification.verification_result import Departure, DepartureFound

CLOSE = 1e-3
"""The largest relative difference of numbers that another processor or another BLAS may cause."""
_MOST_TEXT = 160


class EventMatching:
    """Compares events: exactly, or (``exact`` is False) numbers only as closely as another processor allows."""

    def __init__(self, *, exact: bool) -> None:
        self.exact = exact

    def check(self, expected: Event, found: Event | None, line: int) -> None:
        """Raise DepartureFound unless ``found`` is the event that was expected."""
        if found is None:
            raise DepartureFound(
                Departure(line=line, event="end of the trace", expected=in_words(expected), found="no further event")
            )
        if type(found) is not type(expected):
            raise departure(found, line, expected=in_words(expected))
        for name in expected.__struct_fields__:
            computed, recorded = getattr(expected, name), getattr(found, name)
            if not self._equal(computed, recorded):
                raise departure(found, line, expected=f"{name} {_short(computed)}", found=_short(recorded))

    def _equal(self, computed: object, recorded: object) -> bool:
        if self.exact or computed == recorded:
            return computed == recorded
        if isinstance(computed, float) and isinstance(recorded, float | int):
            return math.isclose(computed, recorded, rel_tol=CLOSE, abs_tol=CLOSE)
        if isinstance(computed, Mapping) and isinstance(recorded, Mapping):
            return computed.keys() == recorded.keys() and all(self._equal(computed[k], recorded[k]) for k in computed)
        if isinstance(computed, str) or not isinstance(computed, Sequence) or not isinstance(recorded, Sequence):
            return False
        return len(computed) == len(recorded) and all(map(self._equal, computed, recorded))


def departure(event: Event, line: int, *, expected: str, found: str = "") -> DepartureFound:
    """The departure at a recorded event; ``found`` says what of it differs, by default the event itself."""
    table: Mapping[str, object] = msgspec.structs.asdict(event)
    device, ticket = table.get("device"), table.get("ticket")
    return DepartureFound(
        Departure(
            line=line,
            event=_kind(event),
            device=device if isinstance(device, str) else None,
            ticket=ticket if isinstance(ticket, int) else None,
            expected=expected,
            found=found or in_words(event),
        )
    )


def in_words(event: Event) -> str:
    """An event as a few words: kind, ticket, device, version and moment."""
    table: Mapping[str, object] = msgspec.structs.asdict(event)
    ticket = f" of ticket {table['ticket']}" if "ticket" in table else ""
    device = f" ({table['device']})" if table.get("device") else ""
    version = f", version {table['version']}" if "version" in table else ""
    return f"{_kind(event)}{ticket}{device}{version} at {event.t:.6f} s"


def _kind(event: Event) -> str:
    return type(event).__name__.lower()


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
