"""The trace of a run: an append-only writer, a reader, and the types of all events.

``trace.jsonl`` holds one event per line as JSON: ``kind`` (the name of its class in lower case), ``t`` (emulated
seconds since the run began) and the fields of that class. A :class:`Header` comes before all events of the run itself.
Metrics and summaries are functions of these events alone. *asked* are the seconds that the profile wants, *obtained*
those that the clock measured.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Union

import msgspec

from testbed.common.files.compressed import UNPACKING_ERRORS, opened_raw
from testbed.history.appending import Appender
from testbed.history.events.device_events import (
    Abandoned,
    DeviceEvent,
    Downloaded,
    Poisoned,
    Scripted,
    Suspended,
    Trained,
    Uploaded,
)
from testbed.history.events.event import ComputeEvent, Event, Miss, TicketEvent, TransferEvent, Use
from testbed.history.events.run_events import (
    UNITS,
    Canary,
    Header,
    Joined,
    Left,
    Load,
    OutOfRange,
    Refusal,
    Resumed,
    Scored,
    Stopped,
)
from testbed.history.events.ticket_events import (
    Adopted,
    Arrived,
    Asked,
    Carried,
    Delivered,
    Dispatched,
    Granted,
    HeadEvent,
    Ignored,
    Lost,
    Paused,
    Progressed,
    Regrouped,
    Rejected,
    Resent,
    Superseded,
)
from testbed.history.events.version_events import Aggregated, Clustered, Grouped, Merged, Planned, Round
from testbed.history.events.watts import Watts
from testbed.history.trace_mark import TraceMark
from testbed.history.upgrade import OLDEST, SCHEMA, upgraded

__all__ = [
    "KINDS",
    "SCHEMA",
    "UNITS",
    "Abandoned",
    "Adopted",
    "Aggregated",
    "Arrived",
    "Asked",
    "Canary",
    "Carried",
    "Clustered",
    "ComputeEvent",
    "Delivered",
    "DeviceEvent",
    "Dispatched",
    "Downloaded",
    "Event",
    "Granted",
    "Grouped",
    "HeadEvent",
    "Header",
    "Ignored",
    "Joined",
    "Left",
    "Load",
    "Lost",
    "Merged",
    "Miss",
    "OutOfRange",
    "Paused",
    "Planned",
    "Poisoned",
    "Progressed",
    "Refusal",
    "Regrouped",
    "Rejected",
    "Resent",
    "Resumed",
    "Round",
    "Scored",
    "Scripted",
    "Stopped",
    "Superseded",
    "Suspended",
    "TicketEvent",
    "TraceError",
    "TraceWriter",
    "Trained",
    "TransferEvent",
    "Uploaded",
    "Use",
    "Watts",
    "read",
]

_EVENTS_IN_MEMORY = 4096
_BLOCK = 1 << 20
"""The most bytes that are read at once; of a packed trace less, so that little is lost where it is cut off."""
_HEADER_WORD = b'"header"'
"""Is in each header; the schema of another header must be checked, too."""
_MOST_LINE_BYTES = 16 << 20
"""A line that names 10,000 devices has one MiB at most."""
_MOST_KEPT_BYTES = 64 << 20
"""Bytes of lines that could not be written yet."""


def _leaves(cls: type[Event]) -> list[type[Event]]:
    below = cls.__subclasses__()
    return [leaf for each in below for leaf in _leaves(each)] if below else [cls]


KINDS: dict[str, type[Event]] = {cls.__name__.lower(): cls for cls in _leaves(Event)}

_ANY: Any = Union[tuple(KINDS.values())]  # noqa: UP007  built from a table
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_ANY)


class TraceError(ValueError):
    """A line that is not an event of this schema."""


class TraceWriter:
    """Appends events. Lines are complete or absent, so that a trace is readable after a crash.

    Lines that do not fit on the disk are kept in memory and written as soon as there is space.
    """

    def __init__(self, path: Path, most_kept: int = _MOST_KEPT_BYTES, *, continues_at: int = 0) -> None:
        """``continues_at``: the length of the trace that a resumed run continues; the rest is cut off by others."""
        self._file, self._most_kept = Appender(path, continues_at), most_kept
        self._events: list[Event] = []
        self.lost = 0
        """Events that were never written; known after ``close``."""

    @property
    def problem(self) -> str | None:
        """Why the last write failed; None if it did not."""
        return self._file.problem

    @property
    def full(self) -> bool:
        """Whether too much is kept in memory: nothing is discarded, but the run should end."""
        return self._file.kept > self._most_kept

    def write(self, event: Event) -> None:
        """Buffer the event; encoding many at once keeps the cache warm."""
        self._events.append(event)
        if len(self._events) >= _EVENTS_IN_MEMORY:
            self.flush()

    def flush(self) -> None:
        if self._events:
            self._file.append(_encoder.encode_lines(self._events))
            self._events.clear()
        else:
            self._file.push()

    @property
    def mark(self) -> TraceMark:
        """Length and hash of the file, without buffered events."""
        return self._file.mark

    def sync(self) -> None:
        """Wait until the disk has stored all flushed events."""
        self._file.sync()

    def close(self) -> None:
        self.flush()
        self.lost = self._file.close()


def read(path: Path, torn: Callable[[int], None] = lambda line: None) -> Iterator[Event]:
    """The events of a trace file, which may be packed (``.gz``) or of an earlier schema.

    A torn last line, as a crash leaves it, is skipped and its number is passed to ``torn``. Raises TraceError at any
    other line that is not an event.
    """
    return _LineReader(path, torn).events()


class _LineReader:
    """Reads a trace in blocks of whole lines, which are decoded together: a third faster than line by line.

    A block that cannot be decoded so is decoded line by line: one line is wrong, or all are of an earlier schema.
    """

    def __init__(self, path: Path, torn: Callable[[int], None]) -> None:
        self._path, self._torn = path, torn
        self._lines = 0
        """Lines that are decoded."""
        self._has_header = self._is_older = False

    def events(self) -> Iterator[Event]:
        rest = bytearray()
        """The beginning of a line whose end is not read yet."""
        try:
            with opened_raw(self._path) as file:
                while block := file.read1(_BLOCK):
                    whole, newline, after = block.rpartition(b"\n")
                    if newline:
                        yield from self._decoded(bytes(rest) + whole + newline)
                        rest.clear()
                    rest += after
                    if len(rest) > _MOST_LINE_BYTES:
                        place = f"{self._path}, line {self._lines + 1}"
                        raise TraceError(f"{place}: has more than {_MOST_LINE_BYTES >> 20} MiB; no event is so long")
        except UNPACKING_ERRORS as error:
            raise TraceError(f"{self._path}, after line {self._lines}: cannot be unpacked: {error}") from None
        if rest:
            self._torn(self._lines + 1)

    def _decoded(self, lines: bytes) -> Iterable[Event]:
        if not self._has_header or self._is_older or _HEADER_WORD in lines:
            return self._one_by_one(lines)
        try:
            events: list[Event] = _decoder.decode_lines(lines)
        except (msgspec.MsgspecError, RecursionError):
            return self._one_by_one(lines)
        if not lines.count(b"\n") == lines.count(b"}\n{") + 1 == len(events):  # a line is not exactly one event
            return self._one_by_one(lines)
        self._lines += len(events)
        return events

    def _one_by_one(self, lines: bytes) -> Iterator[Event]:
        for line in lines.split(b"\n")[:-1]:
            self._lines += 1
            place = f"{self._path}, line {self._lines}"
            try:
                event: Event = (_decode_older if self._is_older else _decoder.decode)(line)
            except (msgspec.MsgspecError, RecursionError) as error:
                _check_foreign(line, place)
                raise TraceError(f"{place}: {error}") from None
            if type(event) is Header:
                _check(event.schema, event.units, place)
                self._has_header, self._is_older = True, event.schema != SCHEMA
                event = msgspec.structs.replace(event, schema=SCHEMA)
            yield event


def _decode_older(line: bytes) -> Event:
    event: Event = msgspec.convert(upgraded(msgspec.json.decode(line, type=dict[str, Any])), type=_ANY)
    return event


def _check(schema: object, units: object, place: str) -> None:
    if schema not in range(OLDEST, SCHEMA + 1):
        raise TraceError(f"{place}: schema {schema}; this version reads {OLDEST} to {SCHEMA}")
    if units != UNITS:
        raise TraceError(f"{place}: units {units!r}; this version reads {UNITS!r}")


def _check_foreign(line: bytes, place: str) -> None:
    """Raise TraceError if the line is a header of another schema, whose fields may differ."""
    with contextlib.suppress(msgspec.MsgspecError, RecursionError):
        table = msgspec.json.decode(line, type=dict[str, Any])
        if table.get("kind") == "header":
            _check(table.get("schema"), table.get("units", UNITS), place)
