"""All runs of one paper, one after another: first the searches, then the reported runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console

from testbed.common.console import say
from testbed.common.errors import UserError
from testbed.learning.data import loader as data
from testbed.papers.framework.paper import Chosen, Paper
from testbed.papers.framework.paper_run import PaperRun
from testbed.papers.framework.result import Result
from testbed.papers.run_store import Done, RunStore
from testbed.runs.sweep_state import DONE, SweepCell
from testbed.sweeps.runner import Runner
from testbed.sweeps.sweep_progress import SweepProgress

ATTEMPTS = 3
"""At most this many attempts at a run that fails or has a FAIL certificate."""


class Programme:
    """The runs of one paper, in a folder of its own. Finished runs are not repeated."""

    def __init__(self, paper: Paper, folder: Path, console: Console, runner: Runner) -> None:
        self.paper = paper
        self.results: dict[str, Result] = {}
        self.missing: dict[str, str] = {}
        """Data set → why it cannot be loaded, and how to get it."""
        self.omitted: dict[str, str] = {}
        """Run → why it was not tried."""
        self.failed: dict[str, str] = {}
        """Run → its error."""
        self.host_seconds = 0.0
        """The sum over all runs, repeated ones included."""
        self._folder, self._console, self._runner = folder, console, runner
        self._available: set[str] = set()

    @property
    def chosen(self) -> Chosen:
        return {search.name: search.chosen(self.results) for search in self.paper.searches}

    def search_runs(self) -> list[PaperRun]:
        return [paper_run for search in self.paper.searches for paper_run in search.all_runs()]

    def carry_out(self) -> None:
        """Do all runs; return early after a signal."""
        self._run_all(self.search_runs())
        if self._runner.interrupted_by is None:
            self._run_all(self.paper.paper_runs(self.chosen))

    def read(self) -> None:
        """Read the results of finished runs; run nothing."""
        self._read(self.search_runs())
        self._read(self.paper.paper_runs(self.chosen))

    def waiting(self) -> list[PaperRun]:
        """Runs that are not finished. Those that depend on an unfinished search have its middle value."""
        self.read()
        paper_runs = [*self.search_runs(), *self.paper.paper_runs(self.chosen)]
        return [paper_run for paper_run in paper_runs if paper_run.name not in self.results]

    def _store(self, paper_runs: Iterable[PaperRun]) -> RunStore:
        return RunStore(self._folder, {paper_run.name: paper_run for paper_run in paper_runs})

    def _read(self, paper_runs: Sequence[PaperRun]) -> None:
        store = self._store(paper_runs)
        for paper_run in paper_runs:
            done, result = store.done(paper_run), store.result(paper_run)
            if done is not None and result is not None:
                self.results[paper_run.name] = result
                self.host_seconds += done.took + done.wasted

    def _run_all(self, paper_runs: Sequence[PaperRun]) -> None:
        self._read(paper_runs)
        store = self._store(paper_runs)
        cells = {paper_run.name: self._cell(paper_run, store) for paper_run in paper_runs}
        shown = SweepProgress(self._console, list(cells.values()))
        for paper_run in paper_runs:
            if paper_run.name in self.results:
                continue
            if self._runner.interrupted_by is not None:
                return
            if reason := self._cannot(paper_run):
                self.omitted[paper_run.name] = reason
                continue
            shown.ended(cells[paper_run.name], self._run(paper_run, store, cells[paper_run.name], shown))

    def _cell(self, paper_run: PaperRun, store: RunStore) -> SweepCell:
        """For the progress display."""
        experiment, done = paper_run.experiment(), store.done(paper_run)
        dilation = experiment.dilation if isinstance(experiment.dilation, float) else 1.0
        seconds = None if experiment.stop.seconds is None else experiment.stop.seconds * dilation
        cell = SweepCell(name=paper_run.name, words=paper_run.words(), digest="", seconds=seconds)
        if done is not None:
            cell.state, cell.took = DONE, done.took
        return cell

    def _cannot(self, paper_run: PaperRun) -> str:
        """Why a run is omitted; empty if it is not."""
        if paper_run.data and not self._is_available(paper_run.data):
            return f"{paper_run.data} is missing"
        if paper_run.replays and paper_run.replays not in self.results:
            return f"{paper_run.replays}, which it would replay, was not run"
        return ""

    def _is_available(self, name: str) -> bool:
        """Whether the data set can be loaded. Checked once, because the check reads all of it."""
        if name in self.missing or name in self._available:
            return name in self._available
        try:
            data.load(name)
        except UserError as error:
            self.missing[name] = str(error)
            say(self._console, f"all runs that need {name} are omitted: {error}")
            return False
        self._available.add(name)
        return True

    def _run(self, paper_run: PaperRun, store: RunStore, cell: SweepCell, shown: SweepProgress) -> str:
        """Do one run. Returns its outcome in words."""
        wasted, before = 0.0, list[str]()
        for attempt in range(1, ATTEMPTS + 1):
            store.clear(paper_run)
            words = [*paper_run.words(), "--no-report", "--compress"]
            if paper_run.replays:
                words.append(f"--replay={self.results[paper_run.replays].folder}")
            ended = self._runner.run(words, store.place(paper_run), lambda seconds: shown.under_way(cell, seconds))
            if self._runner.interrupted_by is not None:
                return "interrupted"
            if ended.code or ended.run_folder is None:
                before.append(ended.problem)
                wasted += ended.seconds
                continue
            run = str(ended.run_folder.relative_to(store.place(paper_run).resolve()))
            done = Done(digest=store.digest(paper_run), run=run, took=ended.seconds, attempts=attempt, wasted=wasted)
            result = Result(paper_run=paper_run, folder=ended.run_folder, took=ended.seconds, attempts=attempt)
            if result.fidelity == "FAIL" and attempt < ATTEMPTS:
                before.append("FAIL")
                wasted += ended.seconds
                continue
            store.save(paper_run, done)
            self.results[paper_run.name] = result
            self.host_seconds += done.took + wasted
            cell.state, cell.took = DONE, done.took
            again = f", after {'; '.join(before)}" if before else ""
            return f"{result.fidelity} in {ended.seconds:.0f} s{again}"
        self.failed[paper_run.name] = before[-1]
        self.host_seconds += wasted
        return f"failed, {before[-1]}"
