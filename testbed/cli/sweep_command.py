"""``run_testbed.py sweep``: run all combinations of strategies, settings and seeds, and compare them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from testbed.cli import compare_command, options
from testbed.cli.compare_command import MetricOptions
from testbed.cli.options import AS_WRITTEN, Commands
from testbed.common.console import say
from testbed.common.errors import UserError
from testbed.runs import sweep_state
from testbed.runs.sweep_state import DONE, FAILED, SweepCell, SweepStore
from testbed.sweeps import sweep_cells, sweep_progress, sweep_run
from testbed.sweeps.sweep_cells import SweepSettings
from testbed.sweeps.sweep_progress import duration

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    settings: SweepSettings
    out: Path
    data_dir: Path | None
    by: MetricOptions
    dry_run: bool


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "sweep",
        help="run strategies, settings and seeds one after another, and compare them",
        description=DESCRIPTION,
        formatter_class=AS_WRITTEN,
    )
    options.set_command(parser, SweepOptions, sweep)
    options.add_profile(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the sweep")
    parser.add_argument(
        "--strategy", metavar="NAME,…", help="strategies with their default parameters; default: the profile's"
    )
    parser.add_argument(
        "--seeds", metavar="N|A,B,…", help="how many, from 1, or which (one: 7,); default: the profile's seed"
    )
    options.add_overrides(parser, "override a key of the profile in every run; may be repeated")
    parser.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="KEY=V1,V2,…",
        help="a key of the profile and the values that it takes; may be repeated, for all combinations",
    )
    parser.add_argument("--seconds", type=float, metavar="S", help="overrides stop.seconds")
    parser.add_argument(
        "--dilation", type=options.number_or_word, metavar="K|auto", help="host seconds per emulated second"
    )
    parser.add_argument("--replay", metavar="RUN", help="every run repeats the delays of this recorded run")
    options.add_data_dir(parser)
    parser.add_argument("--no-admission", action="store_true", help="run even if this host is too small")
    parser.add_argument("--compress", action="store_true", help="pack the traces")
    parser.add_argument("--no-report", action="store_true", help="do not write the report.html of each run")
    compare_command.add_metric(parser)
    parser.add_argument("--dry-run", action="store_true", help="only list the runs, and how long they will take")


def sweep(given: SweepOptions) -> int:
    options.use_data_dir(given.data_dir)
    plan = sweep_cells.plan(given.settings)
    console = Console()
    if given.dry_run:
        _show_plan(console, sweep_state.known(given.out, plan))
        return 0
    with sweep_state.opened(given.out, plan, sys.argv) as store:
        stopped = sweep_run.carry_out(store, console, given.settings)
    if stopped is not None:
        say(console, f"interrupted; repeat the command to continue ({given.out / sweep_state.NAME})")
        return 128 + stopped
    return _finish(store, console, given.by)


def _finish(store: SweepStore, console: Console, by: MetricOptions) -> int:
    """Compare the finished runs, and name those that failed. Returns the exit code."""
    failed, finished = [cell for cell in store.cells if cell.state == FAILED], sweep_state.finished_runs(store.folder)
    code = 1 if failed else 0
    if finished:
        try:
            compare_command.show(console, *compare_command.into(store.folder, finished, by))
        except UserError as error:
            print(f"error: the runs are done, but cannot be compared: {error}", file=sys.stderr)
            code = 1
    for cell in failed:
        print(f"error: {cell.name} failed, {cell.problem}; repeat the command to run it again", file=sys.stderr)
    return code


def _show_plan(console: Console, plan: Sequence[SweepCell]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("run", "state", "host s", "command"):
        table.add_column(column, overflow="fold")
    for cell in plan:
        seconds = "?" if cell.seconds is None else f"{cell.seconds:g}"
        table.add_row(Text(cell.name), cell.state, seconds, Text(" ".join(cell.words)))
    console.print(table)
    waiting = [cell for cell in plan if cell.state != DONE]
    left = sweep_progress.remaining(plan, waiting)
    time = "for an unknown time (not every run has stop.seconds)" if left is None else f"about {duration(left)}"
    say(console, f"{len(waiting)} of {len(plan)} runs to do, {time}, and a few seconds more to start each")
