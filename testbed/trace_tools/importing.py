"""``run_testbed.py trace import``: reading the entries of a file in one of the supported formats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from testbed.common.errors import UserError, nearest
from testbed.traces.formats import TraceFormat
from testbed.traces.formats.found_trace import Entry, FoundTrace, ImportOptions
from testbed.traces.rate import RateTrace

MOST = 1000
"""Maximum number of entries that are imported without --select or --limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The chosen entries of a file, and values for them that the file does not contain."""

    select: tuple[str, ...] = ()
    limit: int | None = None
    skip_bad: bool = False
    name: str | None = None
    delay: float | None = None
    up_mbit: float | None = None


def listed(kind: TraceFormat, path: Path, options: ImportOptions) -> Iterator[tuple[str, str]]:
    """Name and contents of each entry of a file; for a bad one, the error."""
    for entry in kind.read(path, options):
        try:
            yield entry.name, describe(entry.build())
        except UserError as error:
            yield entry.name, f"bad: {error}"


def find(kind: TraceFormat, path: Path, options: ImportOptions, choice: Choice, notes: list[str]) -> list[FoundTrace]:
    """The chosen entries, all read before anything is written. Raises UserError if one is bad or there are none."""
    entries = kind.read(path, options)
    if choice.select:
        return _selected(entries, choice.select, path)
    if choice.limit is None:
        count = sum(1 for _ in islice(kind.read(path, options), MOST + 1))
        if count > MOST:
            raise UserError(
                f"{path}: has more than {MOST} entries; choose some with --select NAME, or the first N with --limit N"
            )
    found: list[FoundTrace] = []
    bad: list[str] = []
    for entry in islice(entries, choice.limit):
        try:
            found.append(entry.build())
        except UserError as error:
            if not choice.skip_bad:
                several = len(list(islice(kind.read(path, options), 2))) > 1
                hint = "; or skip such entries with --skip-bad" if several else ""
                raise UserError(f"{error}{hint}") from None
            bad.append(str(error))
    if bad:
        entries_were = "1 entry was" if len(bad) == 1 else f"{len(bad)} entries were"
        notes.append(f"{entries_were} left out, the first because {bad[0]}")
    if not found:
        raise UserError(f"{path}: there is nothing to import in it; --list shows its contents")
    return found


def _selected(entries: Iterable[Entry], wanted: Sequence[str], path: Path) -> list[FoundTrace]:
    """The wanted entries, by name or else by position, from 0."""
    by_name: dict[str, FoundTrace | UserError] = {}
    by_place: dict[str, FoundTrace | UserError] = {}
    names: list[str] = []
    for place, entry in enumerate(entries):
        if len(names) < MOST:
            names.append(entry.name)
        if entry.name in wanted:
            by_name[entry.name] = _built(entry)
        elif str(place) in wanted:
            by_place[str(place)] = _built(entry)
        if len(by_name) == len(set(wanted)):
            break
    found: list[FoundTrace] = []
    for each in wanted:
        chosen = by_name.get(each) or by_place.get(each)
        if chosen is None:
            raise UserError(f"{path}: has no entry {each!r}; {nearest(each, names)}")
        if isinstance(chosen, UserError):
            raise chosen
        found.append(chosen)
    return found


def _built(entry: Entry) -> FoundTrace | UserError:
    try:
        return entry.build()
    except UserError as error:  # a later entry may have this position as its name
        return error


# ---- descriptions


def describe(found: FoundTrace) -> str:
    """The contents of an entry in one line."""
    parts = [
        f"{name} {describe_rate(trace)}"
        for name, trace in (("down", found.down), ("up", found.up))
        if trace is not None
    ]
    parts += [f"{name} {describe_keys(table)}" for name, table in found.link.items()]
    if found.device is not None:
        parts.append(describe_keys(found.device))
    if found.availability is not None:
        parts.append(f"available {found.availability.share:.1%} of {found.availability.period:g} s")
    return ", ".join(parts)


def describe_rate(trace: RateTrace) -> str:
    return f"{trace.period:g} s, mean {trace.mean / 1e6:.4g} Mbit/s"


def describe_keys(table: Any) -> str:
    return " ".join(f"{key} {value:.4g}" for key, value in table.items())
