"""``run_testbed.py trace compare``: the results of several runs, and whether all of them met the same delays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from testbed.analysis import trace_reading
from testbed.common.console import TerminalConsole, say, table_cell
from testbed.common.json_text import json_text
from testbed.common.terminal import plain_text
from testbed.trace_tools import trace_comparison
from testbed.trace_tools.job_pairs import DeviceDifferences
from testbed.trace_tools.trace_comparison import DelayComparison, TracedResult

_ROUNDING = 1e-9


def compare(places: Sequence[Path], *, use: str, target: float | None, as_json: bool) -> int:
    """Compare runs and print the result. Returns 0 if all met the same delays, else 1."""
    paths = [trace_reading.file_of(place) for place in places]
    with TerminalConsole(stderr=True).status(f"reading {len(paths)} traces …"):
        comparison = trace_comparison.compare(paths, use, target)
    if as_json:
        plain_text.show_json(json_text(comparison))
    else:
        _show(TerminalConsole(), comparison)
    return 0 if comparison.equal else 1


# ---- text


def _show(console: Console, comparison: DelayComparison) -> None:
    for number, run in enumerate(comparison.runs, 1):
        replay = f", replay ({run.replay})" if run.replay else ""
        say(console, f"{number}  {run.trace}: {run.strategy}, seed {run.seed}{replay}")
    console.print(_runs(comparison.runs, comparison.target_accuracy))
    console.print(_devices(comparison.devices))
    style = "green" if comparison.equal else "red"
    console.print(Text(comparison.verdict, style=style), soft_wrap=True)
    for note in comparison.notes:
        say(console, f"note: {note}")


def _runs(runs: Sequence[TracedResult], target: float | None) -> Table:
    reached = [] if target is None else [f"s to\n{target:.3f}"]
    columns = ("versions", "seconds", "arrivals", "staleness\nmean / max", "accuracy", "loss", *reached)
    table = _columns("run", *columns)
    for number, run in enumerate(runs, 1):
        cells = [
            str(run.versions),
            _short(run.seconds),
            str(run.arrivals),
            "–" if run.mean_staleness is None else f"{run.mean_staleness:.3g} / {run.max_staleness}",
            _short(run.accuracy),
            _short(run.loss),
            *([_short(run.seconds_to_target)] if reached else []),
        ]
        table.add_row(table_cell(f"{number} {run.strategy}"), *cells)
    return table


def _devices(rows: Sequence[DeviceDifferences]) -> Table:
    table = _columns(
        "difference", "common\njobs", "computing\nms / step", "download\ns", "upload\ns", "drops", "suspensions"
    )
    for row in rows:
        apart = [_apart(row.computing_s, 1e3), _apart(row.download_s), _apart(row.upload_s)]
        suspensions = row.same_suspensions and row.same_absences
        same = ["same" if each else "differ" for each in (row.same_drops, suspensions)]
        table.add_row(table_cell(row.device), str(row.jobs), *apart, *same)
    return table


def _apart(seconds: float, scale: float = 1.0) -> str:
    return f"{seconds * scale:.2g}" if seconds > _ROUNDING else "0"


def _columns(first: str, *others: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(first, overflow="fold")
    for column in others:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _short(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
