"""What a reader of a format gives: the traces and devices that are in a file, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from testbed.common.errors import UserError
from testbed.traces.availability import AvailabilityTrace
from testbed.traces.rate import RateTrace

_MOST = 1e15
"""No time, rate or size is larger: what is more is a mistake, and would not be exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """What a user said beside the file; each kind takes some of it."""

    up: Path | None = None
    bin: float | None = None
    unit: str | None = None
    slot: float | None = None
    trim: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTrace:
    """One link, device or timetable of availability."""

    name: str
    down: RateTrace | None = None
    up: RateTrace | None = None
    delay: float | None = None
    """Seconds, one way, where the file has it."""
    link: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Keys of each direction of a link whose rate is one number."""
    device: Mapping[str, Any] | None = None
    """Keys of a device profile."""
    availability: AvailabilityTrace | None = None
    notes: tuple[str, ...] = ()
    """What a user should know before believing it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One of those in a file, not looked at yet. Build it before the next is asked for: the file is read on by then."""

    name: str
    build: Callable[[], FoundTrace]


Reader: TypeAlias = Callable[[Path, ImportOptions], Iterator[Entry]]


def rate_trace(rows: Iterable[tuple[float, float]], end: float, place: str) -> RateTrace:
    """A trace of rows (from when on, Mbit/s), in order; neighbours of the same rate are joined."""
    times: list[float] = []
    rates: list[float] = []
    for moment, mbps in rows:
        if not rates or rates[-1] != mbps:
            times.append(moment)
            rates.append(mbps)
    if not times or end <= 0:
        raise UserError(f"{place}: lasts no time; choose another")
    try:
        return RateTrace(times, rates, end)
    except ValueError as error:
        raise UserError(f"{place}: is no trace of a rate: {error}; choose another") from None


def availability_trace(spans: Iterable[tuple[float, float]], period: float, place: str) -> AvailabilityTrace:
    """A trace of somebody who is there in these spans, which may touch and overlap, in the order of their starts."""
    if period <= 0:
        raise UserError(f"{place}: lasts no time; choose another")
    rows: list[tuple[float, int]] = []
    here_until = 0.0
    for start, end in spans:
        start, end = max(start, here_until), min(end, period)
        if end <= start:
            continue
        if start > here_until:
            rows.append((here_until, 0))
        if not rows or rows[-1][1] == 0:
            rows.append((start, 1))
        here_until = end
    if here_until < period:
        rows.append((here_until, 0))
    try:
        return AvailabilityTrace([row[0] for row in rows], [row[1] for row in rows], period)
    except ValueError as error:
        raise UserError(f"{place}: is no trace of availability: {error}; choose another") from None


def number(value: object, place: str, what: str, *, least: float = 0.0) -> float:
    """A finite number of a table, at least ``least``."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= _MOST:
        return float(value)
    raise UserError(f"{place}: {what} is {shown(value)}; it must be a number from {least:g} to {_MOST:g}")


def shown(value: object) -> str:
    """What a file holds, short enough for an error; it may be anything."""
    try:
        return f"{value!r:.60}"
    except (ValueError, RecursionError):  # a number of thousands of digits, or lists in lists in lists
        return "a number or table too large to be shown"


def cell(text: str, place: str, what: str) -> float:
    """A finite number in a text file, at least 0."""
    try:
        value: object = float(text)
    except ValueError:
        value = text
    return number(value, place, what)
