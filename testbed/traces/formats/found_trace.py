"""What a reader yields: the traces and devices in a file, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from testbed.common.errors import UserError
from testbed.traces.availability import AvailabilityTrace
from testbed.traces.rate import RateTrace

_MOST = 1e15
"""Largest time, rate or size that is accepted: a larger one is a mistake, and would not be exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Options of the command; each format uses some of them."""

    up: Path | None = None
    bin: float | None = None
    unit: str | None = None
    slot: float | None = None
    trim: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTrace:
    """A link, a device or an availability trace."""

    name: str
    down: RateTrace | None = None
    up: RateTrace | None = None
    delay: float | None = None
    """One-way delay in seconds, if the file has it."""
    link: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Keys of each direction of a link with a constant rate."""
    device: Mapping[str, Any] | None = None
    """Keys of a device profile."""
    availability: AvailabilityTrace | None = None
    notes: tuple[str, ...] = ()
    """Limitations that a user should know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of a file that is not parsed yet. Call ``build`` before the next entry is read from the file."""

    name: str
    build: Callable[[], FoundTrace]


Reader: TypeAlias = Callable[[Path, ImportOptions], Iterator[Entry]]


def rate_trace(rows: Iterable[tuple[float, float]], end: float, place: str) -> RateTrace:
    """Return a trace of ordered rows (begin, Mbit/s). Adjacent rows of equal rate are merged. Raises UserError."""
    times: list[float] = []
    rates: list[float] = []
    for moment, mbps in rows:
        if not rates or rates[-1] != mbps:
            times.append(moment)
            rates.append(mbps)
    if not times or end <= 0:
        raise UserError(f"{place}: has no duration; choose another")
    try:
        return RateTrace(times, rates, end)
    except ValueError as error:
        raise UserError(f"{place}: is not a valid trace of a rate: {error}; choose another") from None


def availability_trace(spans: Iterable[tuple[float, float]], period: float, place: str) -> AvailabilityTrace:
    """Return a trace that is available in these spans, ordered by start; they may overlap. Raises UserError."""
    if period <= 0:
        raise UserError(f"{place}: has no duration; choose another")
    rows: list[tuple[float, int]] = []
    available_until = 0.0
    for start, end in spans:
        start, end = max(start, available_until), min(end, period)
        if end <= start:
            continue
        if start > available_until:
            rows.append((available_until, 0))
        if not rows or rows[-1][1] == 0:
            rows.append((start, 1))
        available_until = end
    if available_until < period:
        rows.append((available_until, 0))
    try:
        return AvailabilityTrace([row[0] for row in rows], [row[1] for row in rows], period)
    except ValueError as error:
        raise UserError(f"{place}: is not a valid trace of availability: {error}; choose another") from None


def number(value: object, place: str, what: str, *, least: float = 0.0) -> float:
    """Return a number of a table. Raises UserError unless it is finite and at least ``least``."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= _MOST:
        return float(value)
    raise UserError(f"{place}: {what} is {shown(value)}; it must be a number from {least:g} to {_MOST:g}")


def shown(value: object) -> str:
    """Return a value as text that is short enough for an error."""
    try:
        return f"{value!r:.60}"
    except (ValueError, RecursionError):  # a number with thousands of digits, or deeply nested lists
        return "a number or table too large to be shown"


def cell(text: str, place: str, what: str) -> float:
    """Return a number in a text file. Raises UserError unless it is finite and at least 0."""
    try:
        value: object = float(text)
    except ValueError:
        value = text
    return number(value, place, what)
