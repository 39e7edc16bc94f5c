"""The command ``run`` without processes: something pretended writes the trace, and the rest is real."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aggregator.process.checkpoint import CHECKPOINT, FORMAT
from testbed.cli import run_command
from testbed.cli.parsers import run_parser
from testbed.common.files import statefile
from testbed.execution import execution
from testbed.execution.outcome import Outcome
from testbed.runs.run_folder import RunFolder
from tests.testbed.analysis.test_metrics import EVENTS
from tests.testbed.examples import MINIMAL, device_spec, write_profile
from tests.testbed.runs.folders import write_trace

FAILURE = "the aggregator has died"


class Pretended:
    """Stands for the processes of a run: they write a trace, or none, and end by themselves or not."""

    def __init__(
        self,
        *,
        failure: str | None = None,
        signal: int | None = None,
        torn: bool = False,
        damaged: bool = False,
        silent: bool = False,
        checkpoint: bool = False,
    ) -> None:
        self._failure, self._signal = failure, signal
        self._torn, self._damaged, self._silent, self._checkpoint = torn, damaged, silent, checkpoint

    def __call__(self, run: Any, core_plan: Any, folder: RunFolder, outcome: Outcome) -> tuple[Any, None]:
        if not self._silent:
            write_trace(folder.trace, EVENTS)
        if self._torn:
            folder.trace.write_bytes(folder.trace.read_bytes()[:-5])
        if self._damaged:
            folder.trace.write_bytes(b"garbage\n" + folder.trace.read_bytes())
        if self._checkpoint:
            notes = {
                "format": FORMAT,
                "t": "1.0",
                "version": "1",
                "trace_bytes": "0",
                "trace_sha256": "",
                "profile": "",
            }
            statefile.draft({}, ()).write(folder.path / CHECKPOINT, notes)
        outcome.failure, outcome.signal = self._failure, self._signal
        if self._failure is not None:
            run.tell_failure(self._failure)
        return SimpleNamespace(devices=[device_spec("a"), device_spec("b")], steps=()), None


def command(*words: str) -> int:
    """Carry out ``run`` with these arguments. Returns the exit code; raises UserError."""
    parser = argparse.ArgumentParser()
    run_parser.add_arguments(run_parser.add_parser(parser.add_subparsers()))
    namespace = parser.parse_args(["run", *words])
    return run_command.COMMAND(namespace)


def carried_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch, pretended: Pretended, *options: str, profile: str = MINIMAL
) -> tuple[int, Path]:
    """Carry out ``run`` with pretended processes. Returns the exit code, and the run folder."""
    monkeypatch.setattr(execution, "_run_processes", pretended)
    path = write_profile(folder, profile)
    code = command(str(path), "--out", str(folder / "runs"), *options)
    [run] = (folder / "runs").iterdir()
    return code, run


def traces(run: Path) -> list[str]:
    return sorted(path.name for path in run.glob("trace*"))
