"""Writing imported traces as profiles that an experiment can name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import tomli_w

from testbed.common.errors import UserError
from testbed.common.files.file_names import file_name
from testbed.common.parameters import TomlTable
from testbed.trace_tools.importing import Choice, describe, describe_keys, describe_rate
from testbed.traces import availability, rate
from testbed.traces.availability import AvailabilityTrace
from testbed.traces.formats import TraceFormat
from testbed.traces.formats.found_trace import FoundTrace
from testbed.traces.rate import RateTrace


@dataclass(slots=True)
class Imported:
    """The written files, and notes for the user."""

    files: list[tuple[Path, str]] = field(default_factory=list)
    """Each file, and a description of its contents."""
    notes: list[str] = field(default_factory=list)
    group: dict[str, str] = field(default_factory=dict)
    """Keys of a device group → the first file for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileFile:
    """A file that will be written."""

    file: str
    contents: RateTrace | AvailabilityTrace | TomlTable
    means: str
    key: str | None = None
    """The key of a device group that names it."""


def write(
    found: Sequence[FoundTrace], folder: Path, kind: TraceFormat, path: Path, choice: Choice, *, force: bool
) -> Imported:
    """Write profiles and traces into ``folder``. Raises UserError if a file exists and ``force`` is not set."""
    if choice.name is not None:
        if len(found) > 1:
            raise UserError(f"--name is {choice.name!r}, but there are {len(found)} entries; choose one with --select")
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
    """Raise UserError if an option contradicts the file or has no effect."""
    given = {"--up-mbit": choice.up_mbit, "--delay": choice.delay}
    for option in (option for option, value in given.items() if value is not None):
        if not any(each.down is not None or each.link for each in found):
            raise UserError(f"{option} applies to a link, and no link is imported: omit it")
    if choice.up_mbit is not None and any(each.up is not None or "up" in each.link for each in found):
        raise UserError(f"--up-mbit is {choice.up_mbit:g}, but an uplink is imported as well: omit one")


def _write(target: Path, contents: RateTrace | AvailabilityTrace | TomlTable) -> None:
    if isinstance(contents, RateTrace):
        rate.write(target, contents)
    elif isinstance(contents, dict):
        target.write_text(tomli_w.dumps(contents), encoding="utf-8")
    else:
        availability.write(target, contents)


def _parts(found: FoundTrace, name: str, kind: TraceFormat, path: Path, choice: Choice) -> Iterator[ProfileFile]:
    """The files for one entry."""
    title = f"{found.name} ({kind.source.partition(' (')[0]})"
    if found.device is not None:
        device = {"title": title, "source": f"{kind.source}, {path.name}", **found.device}
        yield ProfileFile(
            file=f"{name}.toml", contents=device, means=f"device: {describe_keys(found.device)}", key="profile"
        )
    if found.down is not None or found.link:
        for direction, trace in (("down", found.down), ("up", found.up)):
            if trace is not None:
                yield ProfileFile(file=f"{name}.{direction}.csv", contents=trace, means=describe_rate(trace))
        link = {"title": title, "source": _source(found, kind, path, choice), **_link(found, name, choice)}
        file = f"{name}.toml" if found.device is None else f"{name}.link.toml"
        yield ProfileFile(file=file, contents=link, means=f"link: {describe(replace(found, device=None))}", key="link")
    if found.availability is not None:
        means = describe(replace(found, device=None, link={}))
        yield ProfileFile(file=f"{name}.available.csv", contents=found.availability, means=means, key="availability")


def _link(found: FoundTrace, name: str, choice: Choice) -> dict[str, dict[str, float | str]]:
    """The tables of the two directions."""
    delay = choice.delay if choice.delay is not None else found.delay or 0.0
    tables = {}
    for direction, trace in (("down", found.down), ("up", found.up)):
        rates: dict[str, float | str] = dict(found.link.get(direction, {}))
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
        yield "up: not in the trace, so the uplink has no limit; give one with --up-mbit"
    if (found.down is not None or found.link) and found.delay is None and choice.delay is None:
        yield "delay: not in the trace, so it is 0; give the seconds, one way, with --delay"


def _file_names(found: Sequence[FoundTrace]) -> list[str]:
    names: dict[str, str] = {}
    for each in found:
        name = file_name(each.name)
        if name in names:
            raise UserError(
                f"two entries would get the same file name as {each.name!r}; import each with --select and --name"
            )
        names[name] = each.name
    return list(names)
