"""The history file: one line for each figure that was ever measured, appended as soon as it is known.

Lines are only appended, so two branches that both measured merge by keeping all lines (.gitattributes: union), in any
order. The reader sorts them by date. A line has at most 1,000 bytes, so that one write appends it whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tests.benchmarks.records.figure import Aim, Figure, Value
from tests.benchmarks.records.provenance import Provenance

FILE = Path(__file__).parent.parent / "history.jsonl"
MOST_BYTES = 1000
_MOST_VALUES = 12
_MOST_NOTE_BYTES = 250

Name = tuple[str, str, str]
"""Benchmark, row and column."""


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    benchmark: str
    row: str
    column: str
    value: Value | None
    values: list[float] = []
    unit: str = ""
    aim: str = ""
    reached: bool | None = None
    note: str = ""
    date: str
    command: str
    quick: bool = False
    """Fewer or shorter repetitions than usual."""
    checkout: bool = False
    """Measured on another checkout (--checkout), whose commit this is."""
    commit: str
    dirty: bool = False
    code: str
    processor: str
    cores: int
    torch: str
    pressure: list[float | None]
    """Share of time in which a process waited for a core: before the benchmark, and while this was measured."""

    @property
    def name(self) -> Name:
        return self.benchmark, self.row, self.column

    @property
    def host(self) -> tuple[str, int]:
        return self.processor, self.cores

    @property
    def better_is_less(self) -> bool | None:
        """None: neither direction is better."""
        return {"≤": True, "≥": False}.get(self.aim[:1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """What all figures of one command have in common."""

    benchmark: str
    command: str
    quick: bool
    checkout: bool
    provenance: Provenance


def line(figure: Figure, at: Occasion, date: str, pressure: tuple[float | None, float | None]) -> Line:
    code = at.provenance
    return Line(
        benchmark=at.benchmark,
        row=figure.row,
        column=figure.column,
        value=_rounded(figure.value),
        values=[float(f"{value:.5g}") for value in figure.values[:_MOST_VALUES]],
        unit=figure.unit,
        aim="" if figure.aim is None else str(figure.aim),
        reached=figure.reached,
        note=_cut(figure.note),
        date=date,
        command=at.command,
        quick=at.quick,
        checkout=at.checkout,
        commit=code.commit,
        dirty=code.dirty,
        code=code.code,
        processor=code.processor,
        cores=code.cores,
        torch=code.torch,
        pressure=[None if share is None else round(share, 3) for share in pressure],
    )


def append(path: Path, new: Line) -> None:
    """Append in one write. Raises ValueError if the line is too long."""
    data = msgspec.json.encode(new) + b"\n"
    if len(data) > MOST_BYTES:
        raise ValueError(f"{'/'.join(new.name)}: {len(data)} bytes, a line has at most {MOST_BYTES}; shorten its texts")
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(file, data)
    finally:
        os.close(file)


def read(text: str) -> list[Line]:
    """All lines, the oldest first. Raises ValueError with the number of a line that is not one."""
    return sorted(_lines(text), key=lambda each: each.date)


def _lines(text: str) -> Iterator[Line]:
    for number, each in enumerate(text.splitlines(), start=1):
        try:
            found = msgspec.json.decode(each, type=Line)
            if found.aim:
                Aim.read(found.aim)
        except (msgspec.DecodeError, ValueError) as error:
            raise ValueError(f"history, line {number}: {error}; remove it") from None
        yield found


def newest(lines: Iterable[Line]) -> dict[Name, Line]:
    """The newest figure of each name. One with the usual repetitions comes before any quick one of the same code."""
    found: dict[Name, Line] = {}
    for each in lines:
        before = found.get(each.name)
        if before is None or not (each.quick and not before.quick and each.code == before.code):
            found[each.name] = each
    return found


def of_host(lines: Iterable[Line], host: tuple[str, int]) -> list[Line]:
    """Only figures of this processor and number of cores are comparable."""
    return [each for each in lines if each.host == host]


def _rounded(value: Value | None) -> Value | None:
    """Five digits, and zero instead of what is left over by arithmetic."""
    return value if value is None or isinstance(value, str) else round(float(f"{value:.5g}"), 9)


def _cut(note: str) -> str:
    """One line that leaves the other fields enough bytes."""
    return " ".join(note.split()).encode()[:_MOST_NOTE_BYTES].decode(errors="ignore")
