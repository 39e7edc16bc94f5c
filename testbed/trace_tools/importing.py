"""From a file in one of the formats to profiles that an experiment can name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import tomli_w

from testbed.common.errors import UserError, nearest
from testbed.common.file_names import file_name
from testbed.traces import availability, rate
from testbed.traces.availability import AvailabilityTrace
from testbed.traces.formats import TraceFormat
from testbed.traces.formats.found_trace import Entry, FoundTrace, ImportOptions
from testbed.traces.rate import RateTrace

MOST = 1000
"""So many entries are imported at once without being asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which entries of a file, and what is said about them that is not in it."""

    select: tuple[str, ...] = ()
    limit: int | None = None
    skip_bad: bool = False
    name: str | None = None
    delay: float | None = None
    up_mbit: float | None = None


@dataclass(slots=True)
class Imported:
    """What was written, and what a user should know."""

    files: list[tuple[Path, str]] = field(default_factory=list)
    """Each file, and what it holds."""
    notes: list[str] = field(default_factory=list)
    group: dict[str, str] = field(default_factory=dict)
    """Keys of a group of devices that name the first of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileFile:
    """A file to be."""

    file: str
    contents: RateTrace | AvailabilityTrace | dict[str, Any]
    means: str
    key: str | None = None
    """By which an experiment names it."""


def listed(kind: TraceFormat, path: Path, options: ImportOptions) -> Iterator[tuple[str, str]]:
    """Name and contents of each entry of a file; of a bad one, what is wrong with it."""
    for entry in kind.read(path, options):
        try:
            yield entry.name, describe(entry.build())
        except UserError as error:
            yield entry.name, f"bad: {error}"


def find(kind: TraceFormat, path: Path, options: ImportOptions, choice: Choice, notes: list[str]) -> list[FoundTrace]:
    """The entries that were chosen. Nothing is written before all of them have been read."""
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
                hint = "; or leave such entries out with --skip-bad" if several else ""
                raise UserError(f"{error}{hint}") from None
            bad.append(str(error))
    if bad:
        entries_were = "1 entry was" if len(bad) == 1 else f"{len(bad)} entries were"
        notes.append(f"{entries_were} left out, the first because {bad[0]}")
    if not found:
        raise UserError(f"{path}: there is nothing to import in it; --list shows what it holds")
    return found


def _selected(entries: Iterable[Entry], wanted: Sequence[str], path: Path) -> list[FoundTrace]:
    """By name; else by place, from 0."""
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
    except UserError as error:  # it may be the place of one entry and the name of a later one
        return error


# ---- what it holds, in words


def describe(found: FoundTrace) -> str:
    """One line."""
    parts = [f"{name} {_rate(trace)}" for name, trace in (("down", found.down), ("up", found.up)) if trace is not None]
    parts += [f"{name} {_keys(table)}" for name, table in found.link.items()]
    if found.device is not None:
        parts.append(_keys(found.device))
    if found.availability is not None:
        parts.append(f"there {found.availability.share:.1%} of {found.availability.period:g} s")
    return ", ".join(parts)


def _rate(trace: RateTrace) -> str:
    return f"{trace.period:g} s, mean {trace.mean / 1e6:.4g} Mbit/s"


def _keys(table: Any) -> str:
    return " ".join(f"{key} {value:.4g}" for key, value in table.items())


# ---- profiles


def write(
    found: Sequence[FoundTrace], folder: Path, kind: TraceFormat, path: Path, choice: Choice, *, force: bool
) -> Imported:
    """Profiles and traces, in ``folder``."""
    if choice.name is not None:
        if len(found) > 1:
            raise UserError(f"--name is {choice.name!r}, and there are {len(found)} entries; choose one with --select")
        found = [replace(found[0], name=choice.name)]
    _check_choice(found, choice)
    names = _file_names(found)
    imported = Imported()
    parts = [part for each, name in zip(found, names, strict=True) for part in _parts(each, name, kind, path, choice)]
    exist = [folder / part.file for part in parts if (folder / part.file).exists()]
    if exist and not force:
        raise UserError(f"{exist[0]}: exists; choose another --out, or overwrite it with --force")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for part in parts:
            _write(folder / part.file, part.contents)
            imported.files.append((folder / part.file, part.means))
            if part.key is not None:
                imported.group.setdefault(part.key, str(folder / part.file))
    except OSError as error:
        raise UserError(f"--out {folder}: cannot be written to: {error.strerror}; choose another folder") from None
    notes = [note for each in found for note in (*each.notes, *_notes(each, choice))]
    imported.notes = list(dict.fromkeys(notes))
    return imported


def _check_choice(found: Sequence[FoundTrace], choice: Choice) -> None:
    """What is said on the command line must not be said by the file too, nor be of no use."""
    given = {"--up-mbit": choice.up_mbit, "--delay": choice.delay}
    for option in (option for option, value in given.items() if value is not None):
        if not any(each.down is not None or each.link for each in found):
            raise UserError(f"{option} is of a link, and there is none in what is imported: leave it out")
    if choice.up_mbit is not None and any(each.up is not None or "up" in each.link for each in found):
        raise UserError(f"--up-mbit is {choice.up_mbit:g}, and an uplink is imported as well: leave one out")


def _write(target: Path, contents: RateTrace | AvailabilityTrace | dict[str, Any]) -> None:
    if isinstance(contents, RateTrace):
        rate.write(target, contents)
    elif isinstance(contents, dict):
        target.write_text(tomli_w.dumps(contents), encoding="utf-8")
    else:
        availability.write(target, contents)


def _parts(found: FoundTrace, name: str, kind: TraceFormat, path: Path, choice: Choice) -> Iterator[ProfileFile]:
    """The files that an entry becomes."""
    title = f"{found.name} ({kind.source.partition(' (')[0]})"
    if found.device is not None:
        device = {"title": title, "source": f"{kind.source}, {path.name}", **found.device}
        yield ProfileFile(file=f"{name}.toml", contents=device, means=f"device: {_keys(found.device)}", key="profile")
    if found.down is not None or found.link:
        for direction, trace in (("down", found.down), ("up", found.up)):
            if trace is not None:
                yield ProfileFile(file=f"{name}.{direction}.csv", contents=trace, means=_rate(trace))
        link = {"title": title, "source": _source(found, kind, path, choice), **_link(found, name, choice)}
        file = f"{name}.toml" if found.device is None else f"{name}.link.toml"
        yield ProfileFile(file=file, contents=link, means=f"link: {describe(replace(found, device=None))}", key="link")
    if found.availability is not None:
        means = describe(replace(found, device=None, link={}))
        yield ProfileFile(file=f"{name}.available.csv", contents=found.availability, means=means, key="availability")


def _link(found: FoundTrace, name: str, choice: Choice) -> dict[str, dict[str, Any]]:
    """Tables of the two directions."""
    delay = choice.delay if choice.delay is not None else found.delay or 0.0
    tables: dict[str, dict[str, Any]] = {}
    for direction, trace in (("down", found.down), ("up", found.up)):
        rates: dict[str, Any] = dict(found.link.get(direction, {}))
        if trace is not None:
            rates["trace"] = f"{name}.{direction}.csv"
        elif direction == "up" and choice.up_mbit is not None:
            rates["mbit"] = choice.up_mbit
        tables[direction] = {**rates, "delay": delay}
    return tables


def _source(found: FoundTrace, kind: TraceFormat, path: Path, choice: Choice) -> str:
    if choice.delay is not None:
        delay = "given on import"
    else:
        delay = "half the median round trip" if found.delay is not None else "not in the trace, 0"
    up = f"; up: {_up(found, choice)}" if found.up is None and "up" not in found.link else ""
    return f"{kind.source}, {path.name}: {describe(replace(found, device=None))}; delay: {delay}{up}"


def _up(found: FoundTrace, choice: Choice) -> str:
    return "not in the trace, no limit" if choice.up_mbit is None else "given on import"


def _notes(found: FoundTrace, choice: Choice) -> Iterator[str]:
    if found.down is not None and found.up is None and choice.up_mbit is None:
        yield "up: not in the trace, so the link has no limit upwards; give one with --up-mbit"
    if (found.down is not None or found.link) and found.delay is None and choice.delay is None:
        yield "delay: not in the trace, so it is 0; give the seconds, one way, with --delay"


def _file_names(found: Sequence[FoundTrace]) -> list[str]:
    names: dict[str, str] = {}
    for each in found:
        name = file_name(each.name)
        if name in names:
            raise UserError(
                f"two entries are called {each.name!r}, or as good as that; import each with --select and --name"
            )
        names[name] = each.name
    return list(names)
