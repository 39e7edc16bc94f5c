"""``run_testbed.py report``: write the page of a run from its trace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from testbed.cli import options
from testbed.common.console import TerminalConsole, say
from testbed.execution import live_progress, report_writing
from testbed.report.content import report_data
from testbed.runs.stored_run import StoredRun


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    run: Path
    out: Path | None
    figures: Path | None


def write_report(given: ReportOptions) -> int:
    run = StoredRun.open(given.run)
    with live_progress.status(TerminalConsole(stderr=True), report_writing.DRAWING):
        out = given.out or report_writing.place_of(run.trace)
        written = report_writing.write(report_data.gather(run), out, given.figures)
    console = TerminalConsole()
    say(console, f"report: {written[0]}")
    if given.figures is not None:
        say(console, f"figures: {len(written) - 1} files in {given.figures}")
    return 0


COMMAND = options.command(ReportOptions, write_report)
