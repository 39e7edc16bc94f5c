"""The options of ``run_testbed.py trace`` and its four commands."""

from __future__ import annotations

import argparse
from pathlib import Path

from testbed.cli.parsers import shared_options
from testbed.cli.parsers.shared_options import AS_WRITTEN, Commands
from testbed.trace_tools.delay_tolerance import TOLERANCE

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


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    return commands.add_parser(
        "trace",
        help="import, show, compare and export traces",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=AS_WRITTEN,
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    subcommands = parser.add_subparsers(required=True, metavar="import|show|compare|export")
    _add_import(subcommands)
    _add_show(subcommands)
    _add_compare(subcommands)
    _add_export(subcommands)


def _add_import(commands: Commands) -> None:
    from testbed.traces.formats import KINDS, flash_speed  # the formats describe themselves

    kinds = "\n".join(f"  {name:20}{kind.means}" for name, kind in KINDS.items())
    parser = commands.add_parser(
        "import",
        help="make profiles from a recorded trace",
        formatter_class=AS_WRITTEN,
        description="Make link profiles, device profiles and availability traces from files that others recorded.",
        epilog=f"kinds (files may be packed by gzip):\n{kinds}\n\n{EXAMPLES}",
    )
    parser.set_defaults(subcommand="import")
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


def _add_show(commands: Commands) -> None:
    parser = commands.add_parser("show", help="what a trace holds", epilog=EXAMPLES, formatter_class=AS_WRITTEN)
    parser.set_defaults(subcommand="show")
    parser.add_argument("trace", type=Path, metavar="RUN|TRACE", help="run folder, its trace.jsonl[.gz], or own CSV")
    parser.add_argument("--png", type=Path, metavar="FILE", help="a picture of delays, or of the rate, over time")
    shared_options.add_format(parser)


def _add_compare(commands: Commands) -> None:
    parser = commands.add_parser(
        "compare",
        help="whether runs met the same delays, and the results of each",
        epilog=EXAMPLES,
        formatter_class=AS_WRITTEN,
        description=_COMPARISON,
    )
    parser.set_defaults(subcommand="compare")
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
    shared_options.add_format(parser)


def _add_export(commands: Commands) -> None:
    parser = commands.add_parser(
        "export",
        help="write a trace in another format",
        epilog=EXAMPLES,
        formatter_class=AS_WRITTEN,
        description=_EXPORT,
    )
    parser.set_defaults(subcommand="export")
    parser.add_argument("trace", type=Path, metavar="RUN|TRACE", help="run folder, its trace.jsonl[.gz], or rate CSV")
    parser.add_argument("--format", choices=_FORMATS, required=True, help="which format")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the files")
    parser.add_argument(
        "--use", choices=("obtained", "asked"), default="obtained", help="mahimahi: seconds obtained, or asked for"
    )
    parser.add_argument("--batch", type=int, metavar="N", help="fedscale-json: samples per step, if no profile has it")
