"""Carrying out a sweep: one run after another, with its state on the disk before and after each."""

from __future__ import annotations

from rich.console import Console

from testbed.common.console import say
from testbed.runs.sweep_state import DONE, FAILED, INTERRUPTED, RUNNING, SweepCell, SweepStore
from testbed.sweeps import sweep_cells
from testbed.sweeps.runner import Runner
from testbed.sweeps.sweep_cells import SweepSettings
from testbed.sweeps.sweep_progress import SweepProgress, duration


def carry_out(store: SweepStore, console: Console, settings: SweepSettings) -> int | None:
    """Run each cell that is not finished. Returns the signal that interrupted the sweep, or None.

    Raises UserError before a run whose profile was changed since the sweep was planned.
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
            sweep_cells.check_unchanged(settings, cell)
            _run(cell, store, runner, shown, console)
    return runner.interrupted_by


def _run(cell: SweepCell, store: SweepStore, runner: Runner, shown: SweepProgress, console: Console) -> None:
    aside = store.set_aside(cell)
    if aside is not None:
        say(console, f"{cell.name}: the files of an unfinished run are now in {aside}")
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
