"""Writing the page of a run.

matplotlib and jinja2 take a second to import, so they are imported when a report is written and not before.
"""

from __future__ import annotations

import contextlib
import gc
import signal
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from testbed.analysis import trace_reading
from testbed.common.errors import UserError
from testbed.execution import live_progress
from testbed.execution.outcome import Outcome
from testbed.report.content import report_data
from testbed.report.content.report_data import ReportCollector, RunData
from testbed.runs.stored_run import StoredRun

if TYPE_CHECKING:
    from testbed.report.sections import Section
    from testbed.runs.run_results import RunResults

DRAWING = "drawing the report …"


def after_run(
    folder: Path,
    outcome: Outcome,
    results: RunResults,
    collected: ReportCollector | None,
    console: Console,
    *,
    quiet: bool,
) -> None:
    """Write the report of a run that has just ended. An error is only a warning: the results are written already."""
    if not trace_reading.has_trace(folder):  # the run failed before its first event
        return
    try:
        with contextlib.nullcontext() if quiet else live_progress.status(console, DRAWING):
            run = StoredRun.open(folder)
            run.keep(results.scanned, results.summary.torn_line)
            [outcome.report] = write(report_data.gather(run, collected), place_of(run.trace))
    except UserError as error:
        outcome.warnings.append(f"no report: {error}")
    except KeyboardInterrupt:
        outcome.warnings.append(f"no report; to make it: run_testbed.py report {folder}")
        outcome.signal = outcome.signal or signal.SIGINT
    except Exception as error:  # noqa: BLE001  hours of computing must not end in a failure to draw
        log = keep_log(traceback.format_exc(), folder)
        why = f"{type(error).__name__}, see {log}"
        outcome.warnings.append(f"no report ({why}); to try again: run_testbed.py report {folder}")


def keep_log(text: str, folder: Path, name: str = "report.log") -> Path:
    """Write the details of a failure to a log of the run; returns its path."""
    log = folder / "logs" / name
    with contextlib.suppress(OSError):  # a disk that is full may be the reason
        log.parent.mkdir(exist_ok=True)
        log.write_text(text, encoding="utf-8")
    return log


def place_of(trace: Path) -> Path:
    """Return the default file of the report; a trace with a name of its own may share its folder with others."""
    stem = trace.name.removesuffix(".gz").removesuffix(".jsonl")
    return trace.with_name("report.html" if stem == "trace" else f"{stem}.report.html")


def page(run: RunData) -> str:
    """Return the page as text. Raises UserError if a package is missing."""
    return _drawn(run, None)[0]


def write(run: RunData, out: Path, figures: Path | None = None) -> list[Path]:
    """Write the page, and the figures if ``figures`` is a folder. Returns the files, the page first."""
    text, saved = _drawn(run, figures)
    _put(text, out)
    return [out, *saved]


def _drawn(run: RunData, figures: Path | None) -> tuple[str, list[Path]]:
    """Draw the page; returns its text, and the files of figures."""
    with _uncollected():
        try:
            from testbed.report import report_page, sections
            from testbed.report.figures import style
        except ImportError as error:
            raise UserError(
                f"a report needs {error.name}, which is not installed; install it: pip install {error.name}"
            ) from None
        with style.style():
            drawn = sections.draw(run)
            saved = [] if figures is None else _save(drawn, figures)
            return report_page.render(run, drawn), saved


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Without the collector of cyclic garbage: of the many objects of modules and figures, none is garbage yet."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


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
