"""``run_testbed.py trace show``: the contents of a trace, as a table and as a figure."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from testbed.analysis import trace_reading
from testbed.common.console import TerminalConsole, say, table_cell
from testbed.common.json_text import json_text
from testbed.common.terminal import plain_text
from testbed.runs.stored_run import StoredRun
from testbed.trace_tools import incidents, trace_contents, trace_plots
from testbed.trace_tools.trace_contents import (
    AvailabilityContents,
    JobFigures,
    PhaseQuantiles,
    RateContents,
    RunContents,
)
from testbed.trace_tools.trace_summary import RunSummary
from testbed.traces import availability, rate
from testbed.traces.formats import own

_WIDEST = 1000
"""Columns of a table, on a terminal of any width."""


def show(place: Path, *, png: Path | None, as_json: bool) -> int:
    """Print the contents of a trace and, if ``png`` is given, draw them. Returns the exit code."""
    if png is not None:
        trace_plots.check()
    contents = _read(place, png)
    if as_json:
        plain_text.show_json(json_text(contents))
        return 0
    console = TerminalConsole()
    if isinstance(contents, RunContents):
        _show_run(console, contents)
    else:
        _show_recorded(console, contents)
    for note in contents.notes:
        say(console, f"note: {note}")
    return 0


# ---- reading


def _read(place: Path, png: Path | None) -> RunContents | RateContents | AvailabilityContents:
    if trace_reading.is_run(place) or not place.exists():
        return _run(place, png)
    return _availability(place, png) if own.is_availability(place) else _rate(place, png)


def _run(place: Path, png: Path | None) -> RunContents:
    stored = StoredRun.open(place)
    run = RunSummary(stored.events(), times=png is not None)
    notes = [*filter(None, [stored.torn_note()])]
    if run.stopped is None:
        notes.append("the trace has no end: the run continues or was killed")
    contents = trace_contents.of_run(run, stored.trace, notes)
    if png is not None:
        trace_plots.delays(run, png, f"{contents.name}: {contents.strategy}, {len(contents.devices)} devices")
    return contents


def _rate(path: Path, png: Path | None) -> RateContents:
    link = rate.read(path)
    if png is not None:
        trace_plots.steps(link.pieces, link.period, png, path.name, "Mbit/s")
    return trace_contents.of_rate(link, path)


def _availability(path: Path, png: Path | None) -> AvailabilityContents:
    presence = availability.read(path)
    if png is not None:
        trace_plots.steps(presence.pieces, presence.period, png, path.name, "available")
    return trace_contents.of_availability(presence, path)


# ---- text


def _show_run(console: Console, run: RunContents) -> None:
    """Print the table of a run, in 80 columns if names and figures are not unusually long."""
    say(
        console,
        f"{run.trace}: {run.name}, {run.strategy}, seed {run.seed}; {_short(run.seconds)} s,"
        f" {run.versions} versions, {len(run.devices)} devices, {run.events} events",
    )
    rows = Table(box=None, padding=(0, 1, 0, 0))
    rows.add_column("\ndevice", no_wrap=True)
    for column in ("\njobs", "\ndrops", "\nsuspended", "stale-\nness", "\nmax"):
        rows.add_column(column, justify="right", no_wrap=True)
    rows.add_column("\nseconds", no_wrap=True)
    for column in ("asked\np50", "\np99", "obtained\np50", "\np99"):
        rows.add_column(column, justify="right", no_wrap=True)
    for device in run.devices:
        _add(rows, device, table_cell(device.device))
    _add(rows, run.all, Text("all"), style="bold")
    TerminalConsole(width=_WIDEST).print(rows)  # a long line is better than a figure that is cut off
    for line in incidents.lines(run.scripted):
        say(console, line)


def _add(rows: Table, figures: JobFigures, name: Text, style: str | None = None) -> None:
    """Add a line for each phase of a device; the first also has its counts."""
    suspended = f"{figures.suspensions} ({figures.suspended_s:.3g} s)" if figures.suspensions else "0"
    late = figures.staleness
    staleness = ["–", "–"] if late is None else [f"{late.mean:.3g}", f"{late.max:.3g}"]
    about: list[str | Text] = [name, str(figures.jobs), str(figures.drops), suspended, *staleness]
    phases = {"download": figures.download, "compute": figures.compute, "upload": figures.upload}
    for phase, seconds in phases.items():
        rows.add_row(*about, phase, *_pair(seconds.asked), *_pair(seconds.obtained), style=style)
        about = [""] * len(about)


def _pair(quantiles: PhaseQuantiles | None) -> list[str]:
    return ["–", "–"] if quantiles is None else [f"{quantiles.p50:.3g}", f"{quantiles.p99:.3g}"]


def _show_recorded(console: Console, contents: RateContents | AvailabilityContents) -> None:
    """Print all fields but the notes in one line."""
    fields = [name for name in contents.__struct_fields__ if name != "notes"]
    say(console, "  ".join(f"{name} {_short(getattr(contents, name))}" for name in fields))


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
