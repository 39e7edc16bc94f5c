"""The history of a run: typed events, an append-only writer, a reader.

``trace.jsonl`` holds one event a line, as JSON: ``kind`` (the class name below in lower case), ``t`` (emulated
seconds since the run began) and the fields of that class. A :class:`Header` comes before anything that happens in the
run. Metrics and summaries are functions of these events and of nothing else. *asked* is what the profile wanted,
*obtained* what the clock said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, Union, get_args

import msgspec

from testbed.messages import Number

SCHEMA = 1
_EVENTS_IN_MEMORY = 4096


class Event(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag=str.lower):
    t: Number


class TicketEvent(Event, frozen=True, kw_only=True):
    """Base of what happens to one ticket of a device."""

    device: str
    ticket: int


class TransferEvent(TicketEvent, frozen=True, kw_only=True):
    """Base of one attempt to move a vector over a link."""

    attempt: int
    asked: Number
    obtained: Number
    bytes: int
    dropped: bool


class Header(Event, frozen=True, kw_only=True):
    """First line: what the numbers below mean."""

    schema: int
    name: str
    strategy: str
    seed: int
    dilation: Number
    started: str
    host: str
    units: str = "seconds, bytes, versions"


class Joined(Event, frozen=True, kw_only=True):
    """A device is there; pid and cores as it read them back itself."""

    device: str
    pid: int
    cores: list[int]
    samples: int


class Left(Event, frozen=True, kw_only=True):
    device: str
    reason: str


class Dispatched(TicketEvent, frozen=True, kw_only=True):
    """A new ticket; ``steps`` is the local work it asks for."""

    version: int
    steps: int


class Resent(TicketEvent, frozen=True, kw_only=True):
    """The same ticket again: its download was lost."""


class Downloaded(TransferEvent, frozen=True, kw_only=True):
    """One attempt to bring a model to the device."""


class Suspended(TicketEvent, frozen=True, kw_only=True):
    """The device hung in mid-job and has come back; ``t`` is when it came back."""

    asked: Number
    obtained: Number


class Trained(TicketEvent, frozen=True, kw_only=True):
    """A job's computation ended, suspensions not counted. ``late`` is the worst step against its deadline."""

    steps: int
    asked: Number
    obtained: Number
    late: Number


class Uploaded(TransferEvent, frozen=True, kw_only=True):
    """One attempt to bring an update to the aggregator."""


class Abandoned(TicketEvent, frozen=True, kw_only=True):
    """Work thrown away because a newer ticket came, with the seconds already spent computing it."""

    seconds: Number


class Arrived(TicketEvent, frozen=True, kw_only=True):
    """An update with a valid ticket reached the rule. A loss that was not finite is null."""

    version: int
    staleness: int
    loss: Number | None


class Ignored(TicketEvent, frozen=True, kw_only=True):
    """An update whose ticket had been settled before."""


class Aggregated(Event, frozen=True, kw_only=True):
    """A version came to be, out of these tickets with these weights (null: not finite) and stalenesses."""

    version: int
    tickets: list[int]
    weights: list[Number | None]
    staleness: list[int]


class Rejected(TicketEvent, frozen=True, kw_only=True):
    reason: str


class Superseded(TicketEvent, frozen=True, kw_only=True):
    """The rule restarted a busy device."""


class Lost(TicketEvent, frozen=True, kw_only=True):
    reason: str


class Refusal(Event, frozen=True, kw_only=True):
    """A message that was not one, or that came from nobody we know."""

    peer: str
    reason: str


class Scored(Event, frozen=True, kw_only=True):
    """``made`` is the moment at which the version came to be, ``t`` when its score was known."""

    version: int
    made: Number
    metrics: dict[str, Number]


class Stopped(Event, frozen=True, kw_only=True):
    reason: str
    version: int
    in_flight: int


DeviceEvent: TypeAlias = Downloaded | Suspended | Trained | Uploaded | Abandoned
"""What devices report, with their messages."""


def _leaves(cls: type[Event]) -> list[type[Event]]:
    below = cls.__subclasses__()
    return [leaf for each in below for leaf in _leaves(each)] if below else [cls]


KINDS: dict[str, type[Event]] = {cls.__name__.lower(): cls for cls in _leaves(Event)}
_REPORTED = {cls.__name__.lower(): cls for cls in get_args(DeviceEvent)}

_ANY: Any = Union[tuple(KINDS.values())]  # noqa: UP007  made of a table, not written out
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_ANY)


class TraceError(ValueError):
    """A line or a table that is not an event of this schema."""


def as_table(event: Event) -> dict[str, Any]:
    """The event as plain values, to travel in a message."""
    table: dict[str, Any] = msgspec.to_builtins(event)
    return table


def device_event(table: Mapping[str, Any]) -> DeviceEvent:
    """The event in what a device sent; anything that does not fit raises TraceError."""
    try:
        # one type, not the union: msgspec remembers the one and would analyse the other anew each time
        event: DeviceEvent = msgspec.convert(table, type=_REPORTED[table["kind"]])
    except KeyError:
        raise TraceError("a kind of event that a device does not report") from None
    except (msgspec.ValidationError, TypeError) as error:
        raise TraceError(str(error)) from None
    return event


class TraceWriter:
    """Appends events. Lines are complete or absent, so a trace is readable after a crash."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")
        self._events: list[Event] = []

    def write(self, event: Event) -> None:
        """Remember the event; many are encoded at once, with a warm cache, when they are flushed."""
        self._events.append(event)
        if len(self._events) >= _EVENTS_IN_MEMORY:
            self.flush()

    def flush(self) -> None:
        if self._events:
            self._file.write(b"\n".join(map(_encoder.encode, self._events)) + b"\n")
            self._file.flush()
            self._events.clear()

    def close(self) -> None:
        self.flush()
        self._file.close()


def read(path: Path) -> Iterator[Event]:
    """Events of a trace file. A torn last line, as a crash leaves it, is passed over; any other is an error."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                event: Event = _decoder.decode(line)
            except (msgspec.MsgspecError, RecursionError) as error:
                raise TraceError(f"{path}, line {number}: {error}") from None
            if isinstance(event, Header) and event.schema != SCHEMA:
                raise TraceError(f"{path}: schema {event.schema}; this version reads {SCHEMA}")
            yield event
