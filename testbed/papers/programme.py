"""All runs of one paper, one after another: first what is searched for, then what is reported."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console

from testbed.common.console import say
from testbed.common.errors import UserError
from testbed.learning.data import loader as data
from testbed.papers.framework.job import PaperRun
from testbed.papers.framework.paper import Chosen, Paper
from testbed.papers.framework.result import Result
from testbed.papers.job_store import Done, JobStore
from testbed.runs.sweep_state import DONE, SweepCell
from testbed.sweep.runner import Runner
from testbed.sweep.sweep_progress import SweepProgress

ATTEMPTS = 3
"""At most, at a run whose certificate is FAIL: what it measured is not what was asked for."""


class Programme:
    """One paper's, in a folder of its own. Jobs that are done already are not repeated."""

    def __init__(self, paper: Paper, folder: Path, console: Console, runner: Runner) -> None:
        self.paper = paper
        self.results: dict[str, Result] = {}
        self.missing: dict[str, str] = {}
        """Data set → why it is not there, and how to get it."""
        self.left_out: dict[str, str] = {}
        """Job → why it was not tried."""
        self.failed: dict[str, str] = {}
        """Job → what it said."""
        self.host_seconds = 0.0
        """Of all runs, those included that were repeated."""
        self._folder, self._console, self._runner = folder, console, runner
        self._there: set[str] = set()

    @property
    def chosen(self) -> Chosen:
        return {search.name: search.chosen(self.results) for search in self.paper.searches}

    def search_jobs(self) -> list[PaperRun]:
        return [job for search in self.paper.searches for job in search.all_jobs()]

    def carry_out(self) -> None:
        """Until it is done, or a signal ends it."""
        self._run_all(self.search_jobs())
        if self._runner.interrupted_by is None:
            self._run_all(self.paper.jobs(self.chosen))

    def read(self) -> None:
        """Take what there is, and run nothing."""
        self._take(self.search_jobs())
        self._take(self.paper.jobs(self.chosen))

    def waiting(self) -> list[PaperRun]:
        """Jobs that are still to be done; with values that are still to be found, as far as that is known."""
        self.read()
        jobs = [*self.search_jobs(), *self.paper.jobs(self.chosen)]
        return [job for job in jobs if job.name not in self.results]

    def _store(self, jobs: Iterable[PaperRun]) -> JobStore:
        return JobStore(self._folder, {job.name: job for job in jobs})

    def _take(self, jobs: Sequence[PaperRun]) -> None:
        store = self._store(jobs)
        for job in jobs:
            done, result = store.done(job), store.result(job)
            if done is not None and result is not None:
                self.results[job.name] = result
                self.host_seconds += done.took + done.wasted

    def _run_all(self, jobs: Sequence[PaperRun]) -> None:
        self._take(jobs)
        store = self._store(jobs)
        cells = {job.name: self._cell(job, store) for job in jobs}
        shown = SweepProgress(self._console, list(cells.values()))
        for job in jobs:
            if job.name in self.results:
                continue
            if self._runner.interrupted_by is not None:
                return
            if reason := self._cannot(job):
                self.left_out[job.name] = reason
                continue
            shown.ended(cells[job.name], self._run(job, store, cells[job.name], shown))

    def _cell(self, job: PaperRun, store: JobStore) -> SweepCell:
        """For the display of progress."""
        experiment, done = job.experiment(), store.done(job)
        dilation = experiment.dilation if isinstance(experiment.dilation, float) else 1.0
        seconds = None if experiment.stop.seconds is None else experiment.stop.seconds * dilation
        cell = SweepCell(name=job.name, words=job.words(), digest="", seconds=seconds)
        if done is not None:
            cell.state, cell.took = DONE, done.took
        return cell

    def _cannot(self, job: PaperRun) -> str:
        """Why a job is left out; empty if it is not."""
        if job.data and not self._is_there(job.data):
            return f"{job.data} is missing"
        if job.replays and job.replays not in self.results:
            return f"{job.replays}, whose delays it would meet, was not run"
        return ""

    def _is_there(self, name: str) -> bool:
        """Asked once: to know that a data set is whole, all of it is read."""
        if name in self.missing or name in self._there:
            return name in self._there
        try:
            data.load(name)
        except UserError as error:
            self.missing[name] = str(error)
            say(self._console, f"left out, whatever needs {name}: {error}")
            return False
        self._there.add(name)
        return True

    def _run(self, job: PaperRun, store: JobStore, cell: SweepCell, shown: SweepProgress) -> str:
        """What became of it, in words."""
        wasted, before = 0.0, list[str]()
        for attempt in range(1, ATTEMPTS + 1):
            store.clear(job)
            words = [*job.words(), "--no-report", "--compress"]
            if job.replays:
                words.append(f"--replay={self.results[job.replays].folder}")
            ended = self._runner.run(words, store.place(job), lambda seconds: shown.under_way(cell, seconds))
            if self._runner.interrupted_by is not None:
                return "interrupted"
            if ended.code or ended.run_folder is None:
                before.append(ended.problem)
                wasted += ended.seconds
                continue
            run = str(ended.run_folder.relative_to(store.place(job).resolve()))
            done = Done(digest=store.digest(job), run=run, took=ended.seconds, attempts=attempt, wasted=wasted)
            result = Result(job=job, folder=ended.run_folder, took=ended.seconds, attempts=attempt)
            if result.fidelity == "FAIL" and attempt < ATTEMPTS:
                before.append("FAIL")
                wasted += ended.seconds
                continue
            store.save(job, done)
            self.results[job.name] = result
            self.host_seconds += done.took + wasted
            cell.state, cell.took = DONE, done.took
            again = f", after {'; '.join(before)}" if before else ""
            return f"{result.fidelity} in {ended.seconds:.0f} s{again}"
        self.failed[job.name] = before[-1]
        self.host_seconds += wasted
        return f"failed, {before[-1]}"
