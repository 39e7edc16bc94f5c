"""``run_testbed.py trace show``: the contents of a trace, as a table and as a figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from testbed.analysis import trace_reading
from testbed.common.console import say
from testbed.common.stats import quantile
from testbed.history.trace import Scripted
from testbed.trace_tools import incidents, trace_plots
from testbed.trace_tools.trace_summary import PHASES, RunSummary, as_table
from testbed.traces import availability, rate
from testbed.traces.formats import own

_MOST_WINDOWS = 100_000
"""A rate is summarised by seconds; a trace longer than this, by this number of longer windows."""
_WIDEST = 1000
"""Columns of a table, on a terminal of any width."""


def show(place: Path, *, png: Path | None, as_json: bool) -> int:
    """Print the contents of a trace and, if ``png`` is given, draw them. Returns the exit code."""
    if png is not None:
        trace_plots.check()
    table = _run(place, png) if trace_reading.is_run(place) or not place.exists() else _trace(place, png)
    if as_json:
        print(json.dumps(table, indent=2))
        return 0
    console = Console()
    if "devices" in table:
        _show_run(console, table)
    else:
        say(console, "  ".join(f"{key} {_short(value)}" for key, value in table.items() if key != "notes"))
    for note in table["notes"]:
        say(console, f"note: {note}")
    return 0


def torn_note(path: Path, line: int) -> str:
    return f"{path}, line {line}: is torn, as a crash leaves it; it is left out"


# ---- a run


def _run(place: Path, png: Path | None) -> dict[str, Any]:
    path = trace_reading.file_of(place)
    notes: list[str] = []
    run = RunSummary(
        trace_reading.events(path, lambda line: notes.append(torn_note(path, line))), times=png is not None
    )
    table = {"trace": str(path), **as_table(run)}
    if run.stopped is None:
        notes.append("the trace has no end: the run continues or was killed")
    if png is not None:
        trace_plots.delays(run, png, f"{table['name']}: {table['strategy']}, {len(run.devices)} devices")
    return table | {"notes": notes}


def _show_run(console: Console, table: dict[str, Any]) -> None:
    """Print the table of a run, in 80 columns if names and figures are not unusually long."""
    say(
        console,
        f"{table['trace']}: {table['name']}, {table['strategy']}, seed {table['seed']}; {_short(table['seconds'])} s,"
        f" {table['versions']} versions, {len(table['devices'])} devices, {table['events']} events",
    )
    rows = Table(box=None, padding=(0, 1, 0, 0))
    rows.add_column("\ndevice", no_wrap=True)
    for column in ("\njobs", "\ndrops", "\nsuspended", "stale-\nness", "\nmax"):
        rows.add_column(column, justify="right", no_wrap=True)
    rows.add_column("\nseconds", no_wrap=True)
    for column in ("asked\np50", "\np99", "obtained\np50", "\np99"):
        rows.add_column(column, justify="right", no_wrap=True)
    for row in table["devices"]:
        _add(rows, row, Text(row["device"]))  # a name may look like markup
    _add(rows, table["all"], Text("all"), style="bold")
    Console(width=_WIDEST).print(rows)  # a long line is better than a figure that is cut off
    for line in incidents.lines([msgspec.convert(event, Scripted) for event in table["scripted"]]):
        say(console, line)


def _add(rows: Table, row: dict[str, Any], name: Text, style: str | None = None) -> None:
    """Add a line for each phase of a device; the first also has its counts."""
    suspended = f"{row['suspensions']} ({row['suspended_s']:.3g} s)" if row["suspensions"] else "0"
    staleness = _pair(row["staleness"], "mean", "max")
    about: list[str | Text] = [name, str(row["jobs"]), str(row["drops"]), suspended, *staleness]
    for phase in PHASES:
        seconds = [_pair(row[phase][kind], "p50", "p99") for kind in ("asked", "obtained")]
        rows.add_row(*about, phase, *seconds[0], *seconds[1], style=style)
        about = [""] * len(about)


def _pair(table: dict[str, float] | None, first: str, second: str) -> list[str]:
    return ["–", "–"] if table is None else [f"{table[key]:.3g}" for key in (first, second)]


# ---- a rate, or availability


def _trace(path: Path, png: Path | None) -> dict[str, Any]:
    if own.is_availability(path):
        presence = availability.read(path)
        rows = list(presence.pieces)
        table = {"trace": str(path), "seconds": presence.period, "rows": len(rows), "available": presence.share}
        end, unit = presence.period, "available"
    else:
        link = rate.read(path)
        rows = list(link.pieces)
        width = max(1.0, link.period / _MOST_WINDOWS)
        starts = (place * width for place in range(max(1, int(link.period / width))))
        each = [link.bytes_between(start, start + width) * 8e-6 / width for start in starts]
        table = {
            "trace": str(path),
            "seconds": link.period,
            "rows": len(rows),
            "mean_mbps": link.mean / 1e6,
            "p1_mbps": quantile(each, 0.01),
            "p50_mbps": quantile(each, 0.5),
            "p99_mbps": quantile(each, 0.99),
            "outage": sum(rate == 0 for rate in each) / len(each),
        }
        end, unit = link.period, "Mbit/s"
    if png is not None:
        trace_plots.steps(rows, end, png, path.name, unit)
    return table | {"notes": []}


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
