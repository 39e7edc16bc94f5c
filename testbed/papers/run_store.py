"""``job.json`` in the folder of each run records that it is finished, so that a programme can continue."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from testbed.common.parameters import as_table
from testbed.papers.framework.paper_run import PaperRun
from testbed.papers.framework.result import Result

NAME = "job.json"


class Done(msgspec.Struct, kw_only=True):
    """The content of ``job.json``."""

    digest: str
    """SHA-256 of the experiment and of the recording that the run replayed."""
    run: str
    """Its run folder, relative to the folder of ``job.json``."""
    took: float
    attempts: int
    wasted: float
    """Host seconds of earlier attempts, which failed or had a FAIL certificate."""


class RunStore:
    """The finished runs of one paper, in one folder."""

    def __init__(self, folder: Path, paper_runs: Mapping[str, PaperRun]) -> None:
        self._folder, self._paper_runs = folder, paper_runs
        self._digests: dict[str, str] = {}

    def place(self, paper_run: PaperRun) -> Path:
        return self._folder / paper_run.name

    def digest(self, paper_run: PaperRun) -> str:
        """Changes if its profile, a profile that this one names, or the recording that it replays changes."""
        if paper_run.name not in self._digests:
            text = json.dumps(as_table(paper_run.experiment()), sort_keys=True)
            text += self.digest(self._paper_runs[paper_run.replays]) if paper_run.replays else ""
            self._digests[paper_run.name] = hashlib.sha256(text.encode()).hexdigest()[:16]
        return self._digests[paper_run.name]

    def done(self, paper_run: PaperRun) -> Done | None:
        """None if it is not finished, or was finished with another digest."""
        try:
            done = msgspec.json.decode((self.place(paper_run) / NAME).read_bytes(), type=Done)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None
        whole = (self.place(paper_run) / done.run / "summary.json").is_file()
        return done if whole and done.digest == self.digest(paper_run) else None

    def result(self, paper_run: PaperRun) -> Result | None:
        done = self.done(paper_run)
        if done is None:
            return None
        return Result(
            paper_run=paper_run, folder=self.place(paper_run) / done.run, took=done.took, attempts=done.attempts
        )

    def clear(self, paper_run: PaperRun) -> None:
        """Delete the folder of an earlier attempt: interrupted, with a FAIL certificate, or another experiment."""
        if self.place(paper_run).exists():
            shutil.rmtree(self.place(paper_run))

    def save(self, paper_run: PaperRun, done: Done) -> None:
        """Write ``job.json`` as a whole or not at all."""
        part = self.place(paper_run) / f"{NAME}.part"
        part.write_bytes(msgspec.json.encode(done) + b"\n")
        os.replace(part, self.place(paper_run) / NAME)
