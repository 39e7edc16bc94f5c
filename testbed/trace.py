"""The history of a run: typed events, an append-only writer, a reader.

``trace.jsonl`` holds one event a line, as JSON: ``kind`` (the class name below in lower case), ``t`` (emulated
seconds since the run began) and the fields of that class. The first line is a :class:`Header`. Metrics, the live
view, the certificate and a replay are functions of these events and of nothing else. *asked* is what the profile
wanted, *obtained* what the clock said.
"""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    t: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Header(Event):
    """First line: what the numbers below mean."""

    schema: int
    name: str
    strategy: str
    seed: int
    dilation: float
    started: str
    host: str
    units: str = "seconds, bytes, versions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined(Event):
    """A device is there; pid and cores as it read them back itself."""

    device: str
    pid: int
    cores: list[int]
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Left(Event):
    device: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatched(Event):
    """A new ticket; ``steps`` is the local work it asks for."""

    device: str
    ticket: int
    version: int
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resent(Event):
    """The same ticket again: its download was lost."""

    device: str
    ticket: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Downloaded(Event):
    """One attempt to bring a model to the device."""

    device: str
    ticket: int
    attempt: int
    asked: float
    obtained: float
    bytes: int
    dropped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspended(Event):
    """The device hung in mid-job and has come back; ``t`` is when it came back."""

    device: str
    ticket: int
    asked: float
    obtained: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained(Event):
    """A job's computation ended, suspensions not counted. ``late`` is the worst step against its deadline."""

    device: str
    ticket: int
    steps: int
    asked: float
    obtained: float
    late: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded(Event):
    """One attempt to bring an update to the aggregator."""

    device: str
    ticket: int
    attempt: int
    asked: float
    obtained: float
    bytes: int
    dropped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandoned(Event):
    """Work thrown away because a newer ticket came, with the seconds already spent computing it."""

    device: str
    ticket: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived(Event):
    """An update with a valid ticket reached the rule."""

    device: str
    ticket: int
    version: int
    staleness: int
    loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored(Event):
    """An update whose ticket had been settled before."""

    device: str
    ticket: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregated(Event):
    """A version came to be, out of these tickets with these weights and stalenesses."""

    version: int
    tickets: list[int]
    weights: list[float]
    staleness: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected(Event):
    device: str
    ticket: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Superseded(Event):
    """The rule restarted a busy device."""

    device: str
    ticket: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost(Event):
    device: str
    ticket: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal(Event):
    """A message that was not one, or that came from nobody we know."""

    peer: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored(Event):
    """``made`` is the moment at which the version came to be, ``t`` when its score was known."""

    version: int
    made: float
    metrics: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped(Event):
    reason: str
    version: int
    in_flight: int


DEVICE_EVENTS: tuple[type[Event], ...] = (Downloaded, Suspended, Trained, Uploaded, Abandoned)
"""What devices report, with their messages."""

KINDS: dict[str, type[Event]] = {cls.__name__.lower(): cls for cls in Event.__subclasses__()}


class TraceError(ValueError):
    """A line that is not an event of this schema."""


def as_table(event: Event) -> dict[str, Any]:
    table: dict[str, Any] = {"kind": type(event).__name__.lower()}
    for name in _NAMES[type(event)]:
        table[name] = getattr(event, name)
    return table


def from_table(table: Mapping[str, Any], kinds: Iterable[type[Event]] = tuple(KINDS.values())) -> Event:
    """The event in ``table``; unknown kinds, missing or surplus fields and wrong types raise TraceError."""
    cls = KINDS.get(str(table.get("kind")))
    if cls is None or cls not in kinds:
        raise TraceError(f"unknown kind of event {table.get('kind')!r}")
    types = _NAMES[cls]
    values = {name: value for name, value in table.items() if name != "kind"}
    if values.keys() != types.keys():
        raise TraceError(f"{cls.__name__} has the fields {', '.join(types)}, not {', '.join(map(str, values))}")
    for name, kind in types.items():
        value = values[name]
        if kind is float and type(value) is int:
            values[name] = float(value)
        elif type(value) is not (typing.get_origin(kind) or kind):
            raise TraceError(f"{cls.__name__}.{name} is {value!r}")
        elif kind is float and not math.isfinite(value):
            raise TraceError(f"{cls.__name__}.{name} is {value}")
    return cls(**values)


class TraceWriter:
    """Appends events. Lines are complete or absent, so a trace is readable after a crash."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._lines: list[str] = []

    def write(self, event: Event) -> None:
        self._lines.append(_encode(as_table(event)))
        if len(self._lines) >= 4096:
            self.flush()

    def flush(self) -> None:
        if self._lines:
            self._file.write("\n".join(self._lines) + "\n")
            self._file.flush()
            self._lines.clear()

    def close(self) -> None:
        self.flush()
        self._file.close()


def read(path: Path) -> Iterator[Event]:
    """Events of a trace file. A torn last line, as a crash leaves it, is passed over; any other is an error."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith("\n"):
                return
            try:
                event = from_table(json.loads(line))
            except (ValueError, AttributeError) as error:
                raise TraceError(f"{path}, line {number}: {error}") from None
            if isinstance(event, Header) and event.schema != SCHEMA:
                raise TraceError(f"{path}: schema {event.schema}; this version reads {SCHEMA}")
            yield event


_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_NAMES: dict[type[Event], dict[str, Any]] = {
    cls: {field.name: typing.get_type_hints(cls)[field.name] for field in dataclasses.fields(cls)}
    for cls in KINDS.values()
}
