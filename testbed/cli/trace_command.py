"""``run_testbed.py trace``: import, show, compare and export traces."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from testbed.analysis import trace_reading
from testbed.cli import options
from testbed.common.console import TerminalConsole, say
from testbed.common.errors import UserError
from testbed.common.terminal import plain_text
from testbed.history.trace import Event
from testbed.runs.stored_run import StoredRun
from testbed.trace_tools import comparison_text, exporting, fedscale_export, importing, profile_writing, trace_text
from testbed.trace_tools.importing import Choice
from testbed.traces.formats import KINDS, own
from testbed.traces.formats.found_trace import ImportOptions

_MOST_SHOWN = 20


# ---- import


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceImportOptions:
    kind: str
    file: Path
    out: Path | None
    force: bool
    list: bool
    choice: Choice
    reading: ImportOptions


def _import(given: TraceImportOptions) -> int:
    kind, choice = KINDS[given.kind], given.choice
    _check_import(given)
    if given.list:
        for place, (name, what) in enumerate(importing.listed(kind, given.file, given.reading)):
            plain_text.show_line(f"{place}  {name}  {what}")  # there may be 500,000 of them
        return 0
    if given.out is None:
        raise UserError("--out is missing; it names the folder for the profiles (--list shows what the file holds)")
    console = TerminalConsole()
    notes: list[str] = []
    found = importing.find(kind, given.file, given.reading, choice, notes)
    imported = profile_writing.write(found, given.out, kind, given.file, choice, force=given.force)
    for path, meaning in imported.files[:_MOST_SHOWN]:
        say(console, f"{path}: {meaning}")
    if len(imported.files) > _MOST_SHOWN:
        say(console, f"… and {len(imported.files) - _MOST_SHOWN} more files")
    for note in (*notes, *imported.notes):
        say(console, f"note: {note}")
    keys = ", ".join(f'{key} = "{path}"' for key, path in ({"profile": "rpi4"} | imported.group).items())
    say(console, f"in an experiment: devices = [{{ {keys} }}]")
    return 0


def _check_import(given: TraceImportOptions) -> None:
    """Raise UserError for an option that the format does not take, or a number out of range."""
    taken_by_kind = KINDS[given.kind].options
    for name in ("up", "bin", "unit", "slot", "trim"):
        if getattr(given.reading, name) and name not in taken_by_kind:
            takers = ", ".join(other for other, kind in KINDS.items() if name in kind.options)
            raise UserError(f"--{name} is not for {given.kind}; leave it out (it is for {takers})")
    for name, value, least in (
        ("delay", given.choice.delay, 0.0),
        ("up-mbit", given.choice.up_mbit, 1e-9),
        ("bin", given.reading.bin, 0.001),
        ("slot", given.reading.slot, 1e-9),
        ("limit", given.choice.limit, 1),
    ):
        if value is not None and not (math.isfinite(value) and value >= least):
            raise UserError(f"--{name} is {value:g}; it must be at least {least:g}")


# ---- show


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceShowOptions:
    trace: Path
    png: Path | None
    format: str


def _show(given: TraceShowOptions) -> int:
    return trace_text.show(given.trace, png=given.png, as_json=given.format == "json")


# ---- compare


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceCompareOptions:
    first: Path
    others: tuple[Path, ...]
    use: str
    target: float | None
    format: str


def _compare(given: TraceCompareOptions) -> int:
    return comparison_text.compare(
        (given.first, *given.others), use=given.use, target=given.target, as_json=given.format == "json"
    )


# ---- export


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceExportOptions:
    trace: Path
    format: str
    out: Path
    use: str
    batch: int | None


def _export(given: TraceExportOptions) -> int:
    place = given.trace
    if given.batch is not None and given.batch < 1:
        raise UserError(f"--batch is {given.batch}; it must be at least 1")
    a_run = trace_reading.is_run(place) or not place.exists()
    path = trace_reading.file_of(place) if a_run else place
    if not a_run and (given.format != "mahimahi" or own.is_availability(place)):
        raise UserError(
            f"{place}: is not a run; of other files, only a rate (t_s,mbps) can be exported, with --format mahimahi"
        )
    console = TerminalConsole()
    notes: list[str] = []
    try:
        given.out.mkdir(parents=True, exist_ok=True)
        written = _export_run(path, given, notes) if a_run else exporting.rate_to_mahimahi(path, given.out)
    except OSError as error:
        raise UserError(f"--out {given.out}: cannot be written to: {error.strerror}; choose another folder") from None
    for target in written:
        say(console, str(target))
    for note in notes:
        say(console, f"note: {note}")
    return 0


def _noting_torn(run: StoredRun, notes: list[str]) -> Iterator[Event]:
    yield from run.events()
    notes.extend(filter(None, [run.torn_note()]))


def _export_run(path: Path, given: TraceExportOptions, notes: list[str]) -> list[Path]:
    """Write the files and return them; what the user should know is appended to ``notes``."""
    run = StoredRun(path)
    events = _noting_torn(run, notes)
    if given.format == "mahimahi":
        return exporting.run_to_mahimahi(events, given.out, given.use, notes)
    if given.format == "csv":
        return exporting.run_to_csv(events, given.out)
    return fedscale_export.run_to_fedscale(events, given.out, lambda: fedscale_export.job_of(path, given.batch))


COMMANDS = {
    "import": options.command(TraceImportOptions, _import),
    "show": options.command(TraceShowOptions, _show),
    "compare": options.command(TraceCompareOptions, _compare),
    "export": options.command(TraceExportOptions, _export),
}
