"""The options of ``run_testbed.py sweep``."""

from __future__ import annotations

import argparse
from pathlib import Path

from testbed.cli.parsers import shared_options
from testbed.cli.parsers.shared_options import AS_WRITTEN, Commands

DESCRIPTION = """\
Runs every combination of strategies, settings and seeds, and compares them. One after another, never two at once: runs
on one host would take each other's cores and disturb each other's timing. Each is a process of its own and writes to
DIR/STRATEGY[-SETTINGS]-seedN/; one that fails is noted, and the sweep continues with the next.

DIR/sweep.json has the plan and the state of each run. The same command again continues a sweep that stopped, however it
was ended: finished runs are not repeated, and files of unfinished ones are moved to DIR/unfinished/. Ctrl-C ends the
current run and keeps its results for inspection; the same command repeats it. If a profile is changed meanwhile, the
sweep ends before its next run.

exit codes: 0 done, 1 a run failed, 2 wrong input, 130 Ctrl-C, 143 SIGTERM
"""


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    return commands.add_parser(
        "sweep",
        help="run strategies, settings and seeds one after another, and compare them",
        description=DESCRIPTION,
        formatter_class=AS_WRITTEN,
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared_options.add_profile(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the sweep")
    parser.add_argument(
        "--strategy", metavar="NAME,…", help="strategies with their default parameters; default: the profile's"
    )
    parser.add_argument(
        "--seeds", metavar="N|A,B,…", help="how many, from 1, or which (one: 7,); default: the profile's seed"
    )
    shared_options.add_overrides(parser, "override a key of the profile in every run; may be repeated")
    parser.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="KEY=V1,V2,…",
        help="a key of the profile and the values that it takes; may be repeated, for all combinations",
    )
    parser.add_argument("--seconds", type=float, metavar="S", help="overrides stop.seconds")
    parser.add_argument(
        "--dilation", type=shared_options.number_or_word, metavar="K|auto", help="host seconds per emulated second"
    )
    parser.add_argument("--replay", metavar="RUN", help="every run repeats the delays of this recorded run")
    shared_options.add_data_dir(parser)
    parser.add_argument("--no-admission", action="store_true", help="run even if this host is too small")
    parser.add_argument("--compress", action="store_true", help="pack the traces")
    parser.add_argument("--no-report", action="store_true", help="do not write the report.html of each run")
    shared_options.add_metric(parser)
    parser.add_argument("--dry-run", action="store_true", help="only list the runs, and how long they will take")
