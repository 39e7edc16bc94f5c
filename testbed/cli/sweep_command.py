"""``run_testbed.py sweep``: its options, and the way from a plan to a comparison."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from testbed.cli import compare_command as comparing
from testbed.common.console import say
from testbed.common.errors import UserError
from testbed.learning.data import folders
from testbed.runs import sweep_state
from testbed.runs.sweep_state import DONE, FAILED, INTERRUPTED, RUNNING, SweepCell, SweepStore
from testbed.sweep import sweep_cells, sweep_progress
from testbed.sweep.runner import Runner
from testbed.sweep.sweep_progress import SweepProgress, duration

DESCRIPTION = """\
Runs every combination of rules, settings and seeds, and compares them. One after another, never two at once: runs on
one host would take each other's cores and disturb each other's timing. Each is a process of its own and goes to
DIR/RULE[-SETTINGS]-seedN/; one that fails is noted, and the rest goes on.

DIR/sweep.json has the plan and what became of each run. The same command again goes on where a sweep stopped, however
it was ended: finished runs are not repeated, what unfinished ones left is set aside in DIR/unfinished/. Ctrl-C ends the
run under way and keeps its results, for you to look at; the same command repeats it. A profile that is changed
meanwhile ends the sweep before its next run.

exit codes: 0 done, 1 a run failed, 2 wrong input, 130 Ctrl-C, 143 SIGTERM
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", type=Path, metavar="PROFILE.toml", help="the experiment, or a shipped one's name")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the sweep")
    parser.add_argument(
        "--strategy", metavar="NAME,…", help="rules with their default parameters; default: the profile's"
    )
    parser.add_argument(
        "--seeds", metavar="N|A,B,…", help="how many, from 1, or which (one: 7,); default: the profile's seed"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="overrides",
        help="override a key of the profile in every run; may be repeated",
    )
    parser.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="KEY=V1,V2,…",
        help="a key of the profile that takes these values in turn; may be repeated, for all combinations",
    )
    parser.add_argument("--seconds", type=float, metavar="S", help="overrides stop.seconds")
    parser.add_argument("--dilation", type=_number_or_word, metavar="K|auto", help="host seconds per emulated second")
    parser.add_argument("--replay", metavar="RUN", help="every run meets the delays of this recorded run")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help=folders.HELP)
    parser.add_argument("--no-admission", action="store_true", help="run even if this host is too small")
    parser.add_argument("--compress", action="store_true", help="pack the traces")
    parser.add_argument("--no-report", action="store_true", help="leave out the report.html of each run")
    comparing.add_metric(parser)
    parser.add_argument("--dry-run", action="store_true", help="only list the runs, and how long they will take")


def _number_or_word(text: str) -> float | str:
    """The profile's checks say which words."""
    try:
        return float(text)
    except ValueError:
        return text


def sweep(options: argparse.Namespace) -> int:
    plan = sweep_cells.plan(options)
    console = Console()
    if options.dry_run:
        _show_plan(console, sweep_state.known(options.out, plan))
        return 0
    with sweep_state.opened(options.out, plan, sys.argv) as store:
        stopped = _carry_out(store, console, functools.partial(sweep_cells.check_unchanged, options))
    if stopped is not None:
        say(console, f"interrupted; the same command goes on from here ({options.out / sweep_state.NAME})")
        return 128 + stopped
    return _finish(store, console, options)


def _carry_out(store: SweepStore, console: Console, check: Callable[[SweepCell], None]) -> int | None:
    """Every run that is not finished, and that ``check`` does not refuse. Gives the signal that ended it early, if one
    did.
    """
    shown = SweepProgress(console, store.cells)
    before = sum(store.is_finished(cell) for cell in store.cells)
    if before:
        say(console, f"{before} of {len(store.cells)} runs are finished already")
    with Runner() as runner:
        for cell in store.cells:
            if store.is_finished(cell):
                continue
            if runner.interrupted_by is not None:
                break
            check(cell)
            _run(cell, store, runner, shown, console)
    return runner.interrupted_by


def _run(cell: SweepCell, store: SweepStore, runner: Runner, shown: SweepProgress, console: Console) -> None:
    aside = store.set_aside(cell)
    if aside is not None:
        say(console, f"{cell.name}: what an unfinished run left is now in {aside}")
    cell.state, cell.run, cell.took, cell.problem = RUNNING, "", None, ""
    store.save()
    ended = runner.run(cell.words, store.folder / cell.name, lambda seconds: shown.under_way(cell, seconds))
    if ended.code == 0 and ended.run_folder is not None:
        cell.state, cell.took = DONE, round(ended.seconds, 3)
        cell.run = str(ended.run_folder.relative_to(store.folder))
        accuracy = "" if ended.accuracy is None else f", accuracy {ended.accuracy:.3f}"
        what = f"done in {duration(ended.seconds)}{accuracy}"
    elif runner.interrupted_by is not None:
        cell.state, what = INTERRUPTED, "interrupted"
    else:
        cell.state, cell.problem = FAILED, ended.problem
        what = f"failed, {ended.problem}"
    store.save()
    shown.ended(cell, what)


def _finish(store: SweepStore, console: Console, options: argparse.Namespace) -> int:
    """Compare what there is; say what there is not."""
    failed, finished = [cell for cell in store.cells if cell.state == FAILED], sweep_state.finished_runs(store.folder)
    code = 1 if failed else 0
    if finished:
        try:
            comparing.show(console, *comparing.into(store.folder, finished, options.metric, options.lower))
        except UserError as error:
            print(f"error: the runs are done, but cannot be compared: {error}", file=sys.stderr)
            code = 1
    for cell in failed:
        print(f"error: {cell.name} failed, {cell.problem}; the same command tries it again", file=sys.stderr)
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
    told = "nobody knows how long: not every run has stop.seconds" if left is None else f"about {duration(left)}"
    say(console, f"{len(waiting)} of {len(plan)} runs to do, {told}, and a few seconds more to start each")
