"""``run_testbed.py trace``: import, show, compare and export traces; its options, and what a user reads."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from rich.console import Console

from testbed.analysis import trace_reading
from testbed.common.console import say
from testbed.common.errors import UserError
from testbed.trace_tools import comparison_text, exporting, importing, trace_text
from testbed.traces.formats import KINDS, flash_speed, own
from testbed.traces.formats.found_trace import ImportOptions

DESCRIPTION = "Import what others recorded, show what a trace holds, compare runs, export what a run measured."
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

then, in an experiment beside the folder mine:
  devices = [{ profile = "rpi4", link = "mine/ATT-LTE-driving.toml" }]
"""
_FORMATS = ("mahimahi", "csv", "fedscale-json")
_MOST_SHOWN = 20


def add_commands(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="import|show|compare|export")
    kinds = "\n".join(f"  {name:20}{kind.means}" for name, kind in KINDS.items())
    raw = argparse.RawDescriptionHelpFormatter

    bring = commands.add_parser(
        "import",
        help="make profiles of a recorded trace",
        formatter_class=raw,
        description="Make link and device profiles, and traces of availability, of what others recorded.",
        epilog=f"kinds (files may be packed by gzip):\n{kinds}\n\n{EXAMPLES}",
    )
    bring.set_defaults(command=_import)
    bring.add_argument("kind", choices=KINDS, metavar="KIND", help="the format; see below")
    bring.add_argument("file", type=Path, metavar="FILE", help="what was recorded; of a link: its downlink")
    bring.add_argument("--out", type=Path, metavar="DIR", help="folder for the profiles")
    bring.add_argument("--force", action="store_true", help="overwrite files in DIR")
    bring.add_argument("--list", action="store_true", help="only say what the file holds")
    bring.add_argument(
        "--select",
        action="append",
        default=[],
        metavar="NAME|N",
        help="one entry of many, by its name, or its place from 0; may be repeated",
    )
    bring.add_argument("--limit", type=int, metavar="N", help="only the first N entries")
    bring.add_argument("--skip-bad", action="store_true", help="leave out entries that cannot be used")
    bring.add_argument("--name", help="what the profile is called; default: by the file or the entry")
    bring.add_argument("--delay", type=float, metavar="S", help="base delay of the link in seconds, one way")
    bring.add_argument("--up", type=Path, metavar="FILE", help="the uplink, in the same format")
    bring.add_argument("--up-mbit", type=float, metavar="X", help="rate of the uplink, where there is no trace of it")
    bring.add_argument("--bin", type=float, metavar="S", help="mahimahi: seconds over which a rate is taken (0.1)")
    bring.add_argument("--unit", metavar="U", help=f"flash-speed: {', '.join(flash_speed.UNITS)}")
    bring.add_argument("--slot", type=float, metavar="S", help="plato: seconds of a round")
    bring.add_argument("--trim", action="store_true", help="ucc5g: cut off idle seconds in front")

    shown = commands.add_parser("show", help="what a trace holds", epilog=EXAMPLES, formatter_class=raw)
    shown.set_defaults(command=trace_text.show)
    shown.add_argument("trace", type=Path, metavar="RUN|TRACE", help="run folder, its trace.jsonl[.gz], or own CSV")
    shown.add_argument("--png", type=Path, metavar="FILE", help="a picture of delays, or of the rate, over time")
    shown.add_argument("--format", choices=("text", "json"), default="text", help="output format")

    compared = commands.add_parser(
        "compare",
        help="whether runs met the same delays, and what became of each",
        epilog=EXAMPLES,
        formatter_class=raw,
        description=comparison_text.DESCRIPTION,
    )
    compared.set_defaults(command=comparison_text.compare)
    comparison_text.add_options(compared)

    export = commands.add_parser(
        "export",
        help="write a trace in a format of others",
        epilog=EXAMPLES,
        formatter_class=raw,
        description="mahimahi: each device's links as .up and .down, or an own rate CSV; csv: one row per transfer,"
        " job, drop and suspension; fedscale-json: capacity and behaviour of each device.",
    )
    export.set_defaults(command=_export)
    export.add_argument("trace", type=Path, metavar="RUN|TRACE", help="run folder, its trace.jsonl[.gz], or rate CSV")
    export.add_argument("--format", choices=_FORMATS, required=True, help="which format")
    export.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the files")
    export.add_argument(
        "--use", choices=("obtained", "asked"), default="obtained", help="mahimahi: seconds obtained, or asked for"
    )
    export.add_argument("--batch", type=int, metavar="N", help="fedscale-json: samples per step, if no profile tells")


# ---- import


def _import(options: argparse.Namespace) -> int:
    kind = KINDS[options.kind]
    for name in ("up", "bin", "unit", "slot", "trim"):
        if getattr(options, name) and name not in kind.options:
            takers = ", ".join(other for other, taker in KINDS.items() if name in taker.options)
            raise UserError(f"--{name} is not for {options.kind}; leave it out (it is for {takers})")
    for name, least in (("delay", 0.0), ("up_mbit", 1e-9), ("bin", 0.001), ("slot", 1e-9), ("limit", 1)):
        value = getattr(options, name)
        if value is not None and not (math.isfinite(value) and value >= least):
            raise UserError(f"--{name.replace('_', '-')} is {value:g}; it must be at least {least:g}")
    given = ImportOptions(up=options.up, bin=options.bin, unit=options.unit, slot=options.slot, trim=options.trim)
    if options.list:
        for place, (name, what) in enumerate(importing.listed(kind, options.file, given)):
            print(f"{place}  {name}  {what}")  # there may be 500,000 of them
        return 0
    if options.out is None:
        raise UserError("--out is missing; it names the folder for the profiles (or see what is there with --list)")
    choice = importing.Choice(
        select=tuple(options.select),
        limit=options.limit,
        skip_bad=options.skip_bad,
        name=options.name,
        delay=options.delay,
        up_mbit=options.up_mbit,
    )
    console = Console()
    notes: list[str] = []
    found = importing.find(kind, options.file, given, choice, notes)
    imported = importing.write(found, options.out, kind, options.file, choice, force=options.force)
    for path, meaning in imported.files[:_MOST_SHOWN]:
        say(console, f"{path}: {meaning}")
    if len(imported.files) > _MOST_SHOWN:
        say(console, f"… and {len(imported.files) - _MOST_SHOWN} more files")
    for note in (*notes, *imported.notes):
        say(console, f"note: {note}")
    keys = ", ".join(f'{key} = "{path}"' for key, path in ({"profile": "rpi4"} | imported.group).items())
    say(console, f"in an experiment: devices = [{{ {keys} }}]")
    return 0


# ---- export


def _export(options: argparse.Namespace) -> int:
    place: Path = options.trace
    if options.batch is not None and options.batch < 1:
        raise UserError(f"--batch is {options.batch}; it must be at least 1")
    console, notes = Console(), []
    a_run = trace_reading.is_run(place) or not place.exists()
    path = trace_reading.file_of(place) if a_run else place
    if not a_run and (options.format != "mahimahi" or own.is_availability(place)):
        raise UserError(f"{place}: is no run; a rate (t_s,mbps) is exported with --format mahimahi, all else is not")
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        if not a_run:
            written = exporting.rate_to_mahimahi(path, options.out)
        else:
            events = trace_reading.events(path, lambda line: notes.append(trace_text.torn_note(path, line)))
            if options.format == "mahimahi":
                written = exporting.run_to_mahimahi(events, options.out, options.use, notes)
            elif options.format == "csv":
                written = exporting.run_to_csv(events, options.out)
            else:
                written = exporting.run_to_fedscale(events, options.out, lambda: exporting.job_of(path, options.batch))
    except OSError as error:
        raise UserError(f"--out {options.out}: cannot be written to: {error.strerror}; choose another folder") from None
    for target in written:
        say(console, str(target))
    for note in notes:
        say(console, f"note: {note}")
    return 0
