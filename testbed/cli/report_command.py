"""``run_testbed.py report``: write the page of a run from its trace.

matplotlib and jinja2 take a second to import, so they are imported when a report is written and not before.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from testbed.analysis import trace_reading
from testbed.cli import options
from testbed.cli.options import Commands
from testbed.common.console import say
from testbed.common.errors import UserError

if TYPE_CHECKING:
    from testbed.report.sections import Section

DESCRIPTION = """\
A run on one page that needs no network: what was run, the certificates, key figures, accuracy and loss, the timeline
of the fleet, staleness, energy (a proxy), contributions, versions and devices. If the run was killed or is not over, it
shows what was recorded.
"""
_DRAWING = "drawing the report …"


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
    path = trace_reading.file_of(given.run)
    with Console(stderr=True).status(_DRAWING):
        written = write(path, given.out or place_of(path), given.figures)
    console = Console()
    say(console, f"report: {written[0]}")
    if given.figures is not None:
        say(console, f"figures: {len(written) - 1} files in {given.figures}")
    return 0


def after_run(folder: Path, console: Console, *, quiet: bool) -> int:
    """Write the report of a run that has just ended. An error is only a warning: the results are written already.

    Returns the exit code.
    """
    if not trace_reading.has_trace(folder):  # the run failed before its first event
        return 0
    try:
        with contextlib.nullcontext() if quiet else console.status(_DRAWING):
            path = trace_reading.file_of(folder)
            [page] = write(path, place_of(path))
    except UserError as error:
        print(f"warning: no report: {error}", file=sys.stderr)
        return 0
    except KeyboardInterrupt:
        print(f"warning: no report; to make it: run_testbed.py report {folder}", file=sys.stderr)
        return 128 + signal.SIGINT
    except Exception as error:  # noqa: BLE001  hours of computing must not end in a failure to draw
        log = folder / "logs" / "report.log"
        _keep(traceback.format_exc(), log)
        why = f"{type(error).__name__}, see {log}"
        print(f"warning: no report ({why}); to try again: run_testbed.py report {folder}", file=sys.stderr)
        return 0
    if not quiet:
        say(console, f"report: {page}")
    return 0


def _keep(text: str, log: Path) -> None:
    with contextlib.suppress(OSError):  # a disk that is full may be the reason
        log.parent.mkdir(exist_ok=True)
        log.write_text(text, encoding="utf-8")


def place_of(trace: Path) -> Path:
    """Return the default file of the report; a trace with a name of its own may share its folder with others."""
    stem = trace.name.removesuffix(".gz").removesuffix(".jsonl")
    return trace.with_name("report.html" if stem == "trace" else f"{stem}.report.html")


def write(trace: Path, out: Path, figures: Path | None = None) -> list[Path]:
    """Write the page, and the figures if ``figures`` is a folder. Returns the files, the page first."""
    try:
        from testbed.report import report_page as page
        from testbed.report import sections
        from testbed.report.content import report_data
        from testbed.report.figures import style
    except ImportError as error:
        raise UserError(
            f"a report needs {error.name}, which is not installed; install it: pip install {error.name}"
        ) from None
    run = report_data.gather(trace)
    with style.style():
        drawn = sections.draw(run)
        saved = [] if figures is None else _save(drawn, figures)
        _put(page.render(run, drawn), out)
    return [out, *saved]


@contextlib.contextmanager
def _writing(place: Path) -> Iterator[None]:
    """Turn an OSError into a UserError that names ``place``; the error of a full disk names no file."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{place}: cannot be written: {error.strerror or error}; choose another place") from None


def _save(sections: Iterable[Section], folder: Path) -> list[Path]:
    from testbed.report.figures import style

    pictures = (picture for section in sections for picture in section.pictures)
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        return [path for picture in pictures for path in style.save(picture, folder)]


def _put(text: str, out: Path) -> None:
    """Write the page under another name, then rename it: an interruption leaves the old page, or none."""
    part = out.parent / f"{out.name}.part"
    with _writing(out):
        try:
            part.write_text(text, encoding="utf-8")
            part.replace(out)
        finally:
            part.unlink(missing_ok=True)
