"""``run_testbed.py report``: write the page of a run from its trace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from testbed.cli import options
from testbed.cli.options import Commands
from testbed.common.console import say
from testbed.execution import live_progress, report_writing
from testbed.report.content import report_data
from testbed.runs.stored_run import StoredRun

DESCRIPTION = """\
A run on one page that needs no network: what was run, the certificates, key figures, accuracy and loss, the timeline
of the fleet, staleness, energy (a proxy), contributions, versions and devices. If the run was killed or is not over, it
shows what was recorded.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    run: Path
    out: Path | None
    figures: Path | None


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser("report", help="a run on one page, as report.html", description=DESCRIPTION)
    options.set_command(parser, ReportOptions, write_report)
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder, or its trace.jsonl[.gz]")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the page (default: report.html beside the trace)")
    parser.add_argument("--figures", type=Path, metavar="DIR", help="also each figure as SVG and PDF, for a paper")


def write_report(given: ReportOptions) -> int:
    run = StoredRun.open(given.run)
    with live_progress.status(Console(stderr=True), report_writing.DRAWING):
        out = given.out or report_writing.place_of(run.trace)
        written = report_writing.write(report_data.gather(run), out, given.figures)
    console = Console()
    say(console, f"report: {written[0]}")
    if given.figures is not None:
        say(console, f"figures: {len(written) - 1} files in {given.figures}")
    return 0
