"""``run_testbed.py sweep``: run all combinations of strategies, settings and seeds, and compare them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from testbed.cli import compare_command, options
from testbed.cli.compare_command import MetricOptions
from testbed.common.console import TerminalConsole, say, table_cell
from testbed.common.errors import UserError
from testbed.common.terminal import plain_text
from testbed.runs import sweep_state
from testbed.runs.sweep_state import DONE, FAILED, SweepCell, SweepStore
from testbed.sweeps import sweep_cells, sweep_progress, sweep_run
from testbed.sweeps.sweep_cells import SweepSettings
from testbed.sweeps.sweep_progress import duration


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    settings: SweepSettings
    out: Path
    data_dir: Path | None
    by: MetricOptions
    dry_run: bool


def sweep(given: SweepOptions) -> int:
    options.use_data_dir(given.data_dir)
    plan = sweep_cells.plan(given.settings)
    console = TerminalConsole()
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
            plain_text.show_error(f"the runs are done, but cannot be compared: {error}")
            code = 1
    for cell in failed:
        plain_text.show_error(f"{cell.name} failed, {cell.problem}; repeat the command to run it again")
    return code


def _show_plan(console: Console, plan: Sequence[SweepCell]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("run", "state", "host s", "command"):
        table.add_column(column, overflow="fold")
    for cell in plan:
        seconds = "?" if cell.seconds is None else f"{cell.seconds:g}"
        table.add_row(table_cell(cell.name), cell.state, seconds, table_cell(" ".join(cell.words)))
    console.print(table)
    waiting = [cell for cell in plan if cell.state != DONE]
    left = sweep_progress.remaining(plan, waiting)
    time = "for an unknown time (not every run has stop.seconds)" if left is None else f"about {duration(left)}"
    say(console, f"{len(waiting)} of {len(plan)} runs to do, {time}, and a few seconds more to start each")


COMMAND = options.command(SweepOptions, sweep)
