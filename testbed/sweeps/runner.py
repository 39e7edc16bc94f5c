"""Runs experiments one at a time, each in a process of its own, so that a crash does not end the sweep."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from testbed.common.plugins import IN_A_RUN
from testbed.common.signals import STOP_SIGNALS
from testbed.host.cores import die_with_parent
from testbed.processes.templates import early

PROGRAM = Path(__file__).parents[2] / "run_testbed.py"
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended."""

    code: int
    seconds: float
    """Host seconds."""
    run_folder: Path | None
    """None if the run wrote no results."""
    accuracy: float | None
    problem: str
    """How it ended, and the last line that it printed to standard error."""


class Runner:
    """Runs experiments within its ``with`` block, and passes stop signals on to the current run.

    A run has its own process group: otherwise a terminal's Ctrl-C would reach it a second time, and a second signal
    ends it at once. The kernel kills it when this process dies, so that ``kill -9`` of the sweep ends it, too.
    The root template belongs to this process, and each run inherits a connection to it: so torch is imported once, and
    runs with the same task share a warm template.
    """

    def __init__(self) -> None:
        self.interrupted_by: int | None = None
        self._signals = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Runner:
        self._before = {number: signal.signal(number, self._note) for number in STOP_SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        early.release()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def run(self, words: Sequence[str], out: Path, progress: Callable[[float], None]) -> Ended:
        """Run one command line with ``--out out``. ``progress`` is called regularly with the seconds so far."""
        began, passed_on, parent = time.monotonic(), 0, os.getpid()
        with early.lent() as template:
            process = subprocess.Popen(  # noqa: S603  our own program
                [sys.executable, str(PROGRAM), *words, "--out", str(out), "--quiet", "--format", "json"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                process_group=0,
                env=os.environ
                | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), IN_A_RUN: "1"}
                | {early.SOCKET: str(template)},
                pass_fds=[template],
                preexec_fn=lambda: die_with_parent(parent),
            )
        while True:
            try:
                output, errors = process.communicate(timeout=_LOOK_SECONDS)
                break
            except subprocess.TimeoutExpired:
                progress(time.monotonic() - began)
            if self._signals > passed_on and self.interrupted_by is not None:
                passed_on += 1
                process.send_signal(self.interrupted_by)
        return _ended(process.returncode, time.monotonic() - began, output, errors)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.interrupted_by, self._signals = number, self._signals + 1


def _ended(code: int, seconds: float, output: str, errors: str) -> Ended:
    try:
        summary = json.loads(output)
    except ValueError:
        summary = {}
    folder, lines = summary.get("run_folder"), errors.split("\n")
    said = next((line.removeprefix("error: ") for line in reversed(lines) if line.strip()), "")
    how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return Ended(
        code=code,
        seconds=seconds,
        run_folder=None if folder is None else Path(folder),
        accuracy=summary.get("final_accuracy"),
        problem=f"{how}: {said}" if said else how,
    )
