"""``run_testbed.py trace``: import, show, compare and export traces."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from testbed.analysis import trace_reading
from testbed.cli import options
from testbed.cli.options import AS_WRITTEN, Commands
from testbed.common.console import say
from testbed.common.errors import UserError
from testbed.history.trace import Event
from testbed.runs.stored_run import StoredRun
from testbed.trace_tools import comparison_text, exporting, fedscale_export, importing, profile_writing, trace_text
from testbed.trace_tools.importing import Choice
from testbed.trace_tools.job_pairs import TOLERANCE
from testbed.traces.formats import KINDS, flash_speed, own
from testbed.traces.formats.found_trace import ImportOptions

DESCRIPTION = "Import recorded traces, show what a trace holds, compare runs, export what a run measured."
EXAMPLES = """\
examples:
  run_testbed.py trace import mahimahi ATT-LTE-driving.down --up ATT-LTE-driving.up --out mine
  run_testbed.py trace import ucc5g ucc_5g_download.csv.gz --list
  run_testbed.py trace import norway3g norway_hsdpa.csv.gz --select norway_bus_1 --up-mbit 1 --delay 0.07 --out mine
  run_testbed.py trace import fedscale-capacity client_device_capacity --limit 100 --out mine
  run_testbed.py trace import flash-speed speed_distri.json --unit KiB/s --out mine
  run_testbed.py trace show runs/quickstart-20260101-120000 --png delays.png
  run_testbed.py trace show mine/ATT-LTE-driving.down.csv
  run_testbed.py trace compare runs/quickstart-20260101-120000 runs/quickstart-20260101-130000
  run_testbed.py trace export runs/quickstart-20260101-120000 --format csv --out exported
  run_testbed.py trace export mine/ATT-LTE-driving.down.csv --format mahimahi --out exported

then, in a profile beside the folder mine:
  devices = [{ profile = "rpi4", link = "mine/ATT-LTE-driving.toml" }]
"""
_COMPARISON = f"""\
One row for each run, one for each device, and a verdict: whether the n-th job of each device met the same download,
computing, suspension, upload and losses in every run that has such a job (within {TOLERANCE:g} s). This is expected
when several strategies were replayed on one recorded run: run PROFILE.toml --strategy NAME --replay RUN.
For computing, seconds per step are compared: those asked of a replay with those that the recorded run obtained.

exit codes: 0 the same, 1 not the same, 2 wrong input
"""
_EXPORT = (
    "mahimahi: each device's links as .up and .down, or an own rate CSV; csv: one row per transfer, job, drop and"
    " suspension; fedscale-json: capacity and behaviour of each device."
)
_FORMATS = ("mahimahi", "csv", "fedscale-json")
_MOST_SHOWN = 20


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "trace",
        help="import, show, compare and export traces",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=AS_WRITTEN,
    )
    subcommands = parser.add_subparsers(required=True, metavar="import|show|compare|export")
    _add_import(subcommands)
    _add_show(subcommands)
    _add_compare(subcommands)
    _add_export(subcommands)


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


def _add_import(commands: Commands) -> None:
    kinds = "\n".join(f"  {name:20}{kind.means}" for name, kind in KINDS.items())
    parser = commands.add_parser(
        "import",
        help="make profiles from a recorded trace",
        formatter_class=AS_WRITTEN,
        description="Make link profiles, device profiles and availability traces from files that others recorded.",
        epilog=f"kinds (files may be packed by gzip):\n{kinds}\n\n{EXAMPLES}",
    )
    options.set_command(parser, TraceImportOptions, _import)
    add = parser.add_argument
    add("kind", choices=KINDS, metavar="KIND", help="the format; see below")
    add("file", type=Path, metavar="FILE", help="the recording; of a link: its downlink")
    add("--out", type=Path, metavar="DIR", help="folder for the profiles")
    add("--force", action="store_true", help="overwrite files in DIR")
    add("--list", action="store_true", help="only list the entries of the file")
    select = "one entry of many, by its name, or its place from 0; may be repeated"
    add("--select", action="append", default=[], metavar="NAME|N", help=select)
    add("--limit", type=int, metavar="N", help="only the first N entries")
    add("--skip-bad", action="store_true", help="leave out entries that cannot be used")
    add("--name", help="name of the profile; default: that of the file or the entry")
    add("--delay", type=float, metavar="S", help="base delay of the link in seconds, one way")
    add("--up", type=Path, metavar="FILE", help="the uplink, in the same format")
    add("--up-mbit", type=float, metavar="X", help="rate of the uplink, where there is no trace of it")
    add("--bin", type=float, metavar="S", help="mahimahi: seconds over which a rate is averaged (0.1)")
    add("--unit", metavar="U", help=f"flash-speed: {', '.join(flash_speed.UNITS)}")
    add("--slot", type=float, metavar="S", help="plato: seconds of a round")
    add("--trim", action="store_true", help="ucc5g: cut off idle seconds at the beginning")


def _import(given: TraceImportOptions) -> int:
    kind, choice = KINDS[given.kind], given.choice
    _check_import(given)
    if given.list:
        for place, (name, what) in enumerate(importing.listed(kind, given.file, given.reading)):
            print(f"{place}  {name}  {what}")  # there may be 500,000 of them
        return 0
    if given.out is None:
        raise UserError("--out is missing; it names the folder for the profiles (--list shows what the file holds)")
    console = Console()
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


def _add_show(commands: Commands) -> None:
    parser = commands.add_parser("show", help="what a trace holds", epilog=EXAMPLES, formatter_class=AS_WRITTEN)
    options.set_command(parser, TraceShowOptions, _show)
    parser.add_argument("trace", type=Path, metavar="RUN|TRACE", help="run folder, its trace.jsonl[.gz], or own CSV")
    parser.add_argument("--png", type=Path, metavar="FILE", help="a picture of delays, or of the rate, over time")
    options.add_format(parser)


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


def _add_compare(commands: Commands) -> None:
    parser = commands.add_parser(
        "compare",
        help="whether runs met the same delays, and the results of each",
        epilog=EXAMPLES,
        formatter_class=AS_WRITTEN,
        description=_COMPARISON,
    )
    options.set_command(parser, TraceCompareOptions, _compare)
    parser.add_argument("first", type=Path, metavar="RUN", help="run folder, or its trace.jsonl[.gz]")
    parser.add_argument("others", type=Path, nargs="+", metavar="RUN", help="one or more runs to compare with it")
    parser.add_argument(
        "--use",
        choices=("obtained", "asked"),
        default="obtained",
        help="computing of runs that are not replays: seconds obtained (default), or asked for",
    )
    parser.add_argument(
        "--target",
        type=float,
        metavar="ACCURACY",
        help="show when each run reached it; default: the best accuracy that all of them reached",
    )
    options.add_format(parser)


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


def _add_export(commands: Commands) -> None:
    parser = commands.add_parser(
        "export",
        help="write a trace in another format",
        epilog=EXAMPLES,
        formatter_class=AS_WRITTEN,
        description=_EXPORT,
    )
    options.set_command(parser, TraceExportOptions, _export)
    parser.add_argument("trace", type=Path, metavar="RUN|TRACE", help="run folder, its trace.jsonl[.gz], or rate CSV")
    parser.add_argument("--format", choices=_FORMATS, required=True, help="which format")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the files")
    parser.add_argument(
        "--use", choices=("obtained", "asked"), default="obtained", help="mahimahi: seconds obtained, or asked for"
    )
    parser.add_argument("--batch", type=int, metavar="N", help="fedscale-json: samples per step, if no profile has it")


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
    console = Console()
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
