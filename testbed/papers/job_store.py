"""``job.json`` in the folder of each job: whether it is done, so that a programme goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from testbed.common.parameters import as_table
from testbed.papers.framework.job import PaperRun
from testbed.papers.framework.result import Result

NAME = "job.json"


class Done(msgspec.Struct, kw_only=True):
    """Of a job that is done."""

    digest: str
    """Of its experiment, and of the recording that it met."""
    run: str
    """Its run folder, relative to the job's."""
    took: float
    attempts: int
    wasted: float
    """Host seconds of the attempts before it, whose timing was not what was asked for."""


class JobStore:
    """The jobs of one paper, in one folder."""

    def __init__(self, folder: Path, jobs: Mapping[str, PaperRun]) -> None:
        self._folder, self._jobs = folder, jobs
        self._digests: dict[str, str] = {}

    def place(self, job: PaperRun) -> Path:
        return self._folder / job.name

    def digest(self, job: PaperRun) -> str:
        """Another one if its profile, one that its profile names, or the recording that it meets has changed."""
        if job.name not in self._digests:
            text = json.dumps(as_table(job.experiment()), sort_keys=True)
            text += self.digest(self._jobs[job.replays]) if job.replays else ""
            self._digests[job.name] = hashlib.sha256(text.encode()).hexdigest()[:16]
        return self._digests[job.name]

    def done(self, job: PaperRun) -> Done | None:
        """None if it is still to be done, or was done as another experiment."""
        try:
            done = msgspec.json.decode((self.place(job) / NAME).read_bytes(), type=Done)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None
        whole = (self.place(job) / done.run / "summary.json").is_file()
        return done if whole and done.digest == self.digest(job) else None

    def result(self, job: PaperRun) -> Result | None:
        done = self.done(job)
        if done is None:
            return None
        return Result(job=job, folder=self.place(job) / done.run, took=done.took, attempts=done.attempts)

    def clear(self, job: PaperRun) -> None:
        """What an attempt left goes: it was cut short, its timing was wrong, or it was another experiment."""
        if self.place(job).exists():
            shutil.rmtree(self.place(job))

    def save(self, job: PaperRun, done: Done) -> None:
        """Whole on the disk, or not there."""
        part = self.place(job) / f"{NAME}.part"
        part.write_bytes(msgspec.json.encode(done) + b"\n")
        os.replace(part, self.place(job) / NAME)
