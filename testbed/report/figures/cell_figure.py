"""Figures by round for strategies that plan rounds in a radio cell, as their paper shows them."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.common.files.spool import Spool
from testbed.report.content.report_data import RunData
from testbed.report.content.wording import number, plural, share
from testbed.report.figures.over_time import BAND, banded
from testbed.report.figures.style import GREEN, INK, ORANGE, PURPLE, SKY, VERMILLION, ReportFigure, axes_of

_MOST_APART = 150
"""Rounds that a figure can show one by one."""
_FIGURES = (
    ("round-latency", "latency_s", "Round latency", "T_t (seconds)", GREEN, " s"),
    ("degree", "new_updates", "Synchronous degree", "K_t (updates)", SKY, ""),
    ("queue", "queue_s", "Virtual queue", "q_t (seconds)", ORANGE, " s"),
    ("round-staleness", "mean_staleness", "Mean staleness", "mean staleness (versions)", PURPLE, ""),
)


def rounds(run: RunData) -> Iterator[ReportFigure]:
    """One figure for each measure; none if the strategy plans no rounds."""
    last = max((row.version for row in run.versions if row.time_usage is not None), default=None)
    if last is None:
        return
    for name, column, title, label, colour, unit in _FIGURES:
        points = _points(run, column)
        if not points:
            continue
        figure, axes = axes_of()
        axes.set(xlabel="round", ylabel=label, xlim=(0, last))
        axes.grid(visible=True)
        if len(points) <= _MOST_APART:
            axes.plot(*zip(*points, strict=True), color=colour, marker=".", markersize=4, linewidth=1.0)
        else:
            banded(axes, points, float(last), colour)
        axes.set_ylim(bottom=0)
        mean, most = sum(value for _, value in points) / len(points), max(value for _, value in points)
        gist = f"{number(mean)}{unit} on average, {number(most)}{unit} at most."
        gist += f" {BAND}" if len(points) > _MOST_APART else ""
        yield ReportFigure(name=name, title=f"{title} by round", gist=gist, figure=figure)
    yield _usage(run, last)


def _points(run: RunData, column: str) -> Spool:
    """The number of each planned round, and its value in a column of versions.csv."""
    planned = (row for row in run.versions if row.time_usage is not None and getattr(row, column) is not None)
    return Spool(2, ((row.version, getattr(row, column)) for row in planned))


def _usage(run: RunData, last: int) -> ReportFigure:
    points = list(_points(run, "time_usage"))
    figure, axes = axes_of()
    axes.set(xlabel="round", ylabel="seconds so far ÷ T_max", xlim=(0, last))
    axes.grid(visible=True)
    axes.plot(*zip(*points, strict=True), color=VERMILLION)
    planned = run.header.parameters.get("rounds")
    even = ""
    if isinstance(planned, int) and planned > 0:
        even = f" Dashed: {planned} rounds of equal length."
        axes.plot([0, last], [0, last / planned], color=INK, linewidth=0.8, linestyle=(0, (3, 2)))
    axes.set_ylim(bottom=0)
    gist = f"{share(points[-1][1])} of the time budget was used after {plural(len(points), 'round')}.{even}"
    return ReportFigure(name="time-usage", title="Unified time usage", gist=gist, figure=figure)
