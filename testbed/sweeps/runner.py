"""Runs experiments one at a time, each in a process of its own, so that a crash does not end the sweep."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from testbed.common.signals import handled_signals
from testbed.processes.templates import early
from testbed.sweeps.launcher_template import LauncherTemplate

PROGRAM = Path(__file__).parents[1] / "cli" / "programs" / "launchers.py"
"""The program of the launcher template."""
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
    Launchers are forked from a launcher template, and their processes from templates that a root template makes. Both
    belong to this process: so nothing is imported twice, and runs with the same task share a warm template.
    """

    def __init__(self) -> None:
        self.interrupted_by: int | None = None
        self._signals = 0
        self._before: dict[int, Any] = {}
        self._template: LauncherTemplate | None = None

    def __enter__(self) -> Runner:
        self._before = {number: signal.signal(number, self._note) for number in handled_signals()}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end_launchers()
        early.release()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def run(self, words: Sequence[str], out: Path, progress: Callable[[float], None]) -> Ended:
        """Run one command line with ``--out out``. ``progress`` is called regularly with the seconds so far."""
        began, passed_on = time.monotonic(), 0
        given = [*words, "--out", str(out), "--quiet", "--format", "json"]
        with early.lent() as template:
            run = self._launchers().launch(given, template)
        while not run.wait(_LOOK_SECONDS):
            progress(time.monotonic() - began)
            if self._signals > passed_on and self.interrupted_by is not None:
                passed_on += 1
                run.signal(self.interrupted_by)
        assert run.code is not None
        return _ended(run.code, time.monotonic() - began, run.output, run.errors)

    def _launchers(self) -> LauncherTemplate:
        if self._template is None or not self._template.is_alive():
            self._end_launchers()
            self._template = LauncherTemplate(PROGRAM)
        return self._template

    def _end_launchers(self) -> None:
        template, self._template = self._template, None
        if template is not None:
            template.end()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.interrupted_by, self._signals = number, self._signals + 1


def _ended(code: int, seconds: float, output: str, errors: str) -> Ended:
    try:
        summary = json.loads(output)
    except ValueError:
        summary = {}
    folder, lines = summary.get("run_folder"), errors.splitlines()
    said = next((line.removeprefix("error: ") for line in reversed(lines) if line.strip()), "")
    how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return Ended(
        code=code,
        seconds=seconds,
        run_folder=None if folder is None else Path(folder),
        accuracy=summary.get("final_accuracy"),
        problem=f"{how}: {said}" if said else how,
    )
