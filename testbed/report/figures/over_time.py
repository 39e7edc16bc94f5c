"""Figures over time: learning, staleness, local loss, versions. Each has a sentence about what it shows.

A figure stays small for a run of any length: many values become a band.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from testbed.common.files.spool import Spool
from testbed.report.content.binning import band
from testbed.report.content.report_data import RunData
from testbed.report.content.wording import number, plural, share
from testbed.report.figures.style import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    ReportFigure,
    axes_of,
    over_time,
)

_MOST_DOTS = 600
_MOST_MARKED = 20
_MOST_BARS = 40
_COLOURS = {"accuracy": BLUE, "loss": VERMILLION}
BAND = "Line: median; band: from the 10th to the 90th percentile."


def learning(run: RunData) -> Iterator[ReportFigure]:
    """One figure for each metric."""
    for place, metric in enumerate(run.metrics):
        points = [(row.time_s, row.scores[metric]) for row in run.scores if metric in row.scores]
        figure, axes = over_time(seconds=run.total.seconds, label=metric)
        moments, values = zip(*points, strict=True)
        marker = "o" if len(points) <= _MOST_MARKED else ""
        axes.plot(moments, values, color=_COLOURS.get(metric, GREEN), marker=marker, markersize=2.5)
        best = min if "loss" in metric else max
        moment, value = best(points, key=lambda point: point[1])
        axes.plot([moment], [value], "o", color=INK, markersize=3.5)
        if min(values) >= 0:
            axes.set_ylim(bottom=0, top=1 if metric == "accuracy" else None)
        gist = (
            f"From {number(values[0])} to {number(values[-1])} in {plural(len(points), 'scored version')};"
            f" the {'lowest' if best is min else 'highest'} ({number(value)}, dot) at {moment:.1f} s."
        )
        yield ReportFigure(name=_name(metric, place), title=_title(metric), gist=gist, figure=figure)


def staleness(run: RunData) -> Iterator[ReportFigure]:
    points = run.staleness
    if not points:
        return
    figure, axes = over_time(seconds=run.total.seconds, label="staleness (versions)")
    banded(axes, points, run.total.seconds, PURPLE)
    top = max(1.0, axes.get_ylim()[1])
    axes.set_ylim(-0.03 * top, top)  # keeps a line at 0 (synchronous strategies) off the axis
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    mean, most = run.summary.mean_staleness, int(max(value for _, value in points))
    gist = f"Of {plural(len(points), 'applied update')}: {number(mean)} on average, {most} at most. {BAND}"
    yield ReportFigure(name="staleness", title="Staleness over time", gist=gist, figure=figure)

    figure, axes = axes_of()
    counts = Counter(int(value) for _, value in points)
    width = -(-(most + 1) // _MOST_BARS)
    bars: Counter[int] = Counter()
    for value, count in counts.items():  # by values, not by their range: that may have 10¹⁵ of them
        bars[value // width * width] += count
    lefts = sorted(bars)
    heights = [bars[left] / len(points) for left in lefts]
    axes.bar(lefts, heights, width=0.86 * width, align="center", color=PURPLE)
    axes.set(xlabel="staleness (versions)" + (f", in steps of {width}" if width > 1 else ""), ylabel="share of updates")
    axes.set_xlim(-0.6 * width, max(most, 1) + 0.6 * width)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=True, axis="y")
    fresh = counts[0] / len(points)
    gist = f"{share(fresh)} of the updates were fresh (staleness 0); half of them had at most {_median(counts)}."
    yield ReportFigure(name="staleness-distribution", title="Distribution of staleness", gist=gist, figure=figure)


def local_loss(run: RunData) -> Iterator[ReportFigure]:
    points = run.losses
    if not points:
        return
    figure, axes = over_time(seconds=run.total.seconds, label="local loss")
    banded(axes, points, run.total.seconds, ORANGE)
    axes.set_ylim(bottom=min(0.0, min(loss for _, loss in points)))
    devices = [device for device in run.total.devices.values() if device.first_loss is not None]
    first, last = (np.mean([getattr(device, which) for device in devices]) for which in ("first_loss", "last_loss"))
    gist = (
        f"Mean loss in the local steps of {plural(len(points), 'update')}: {number(float(first))} in the first of each"
        f" device, {number(float(last))} in the last. {BAND}"
    )
    yield ReportFigure(name="local-loss", title="Local loss over time", gist=gist, figure=figure)


def versions(run: RunData) -> Iterator[ReportFigure]:
    if not run.versions:
        return
    for name, column, title, label, colour in (
        ("updates-per-version", "new_updates", "New updates per version", "K_t (updates)", SKY),
        ("latency", "latency_s", "Latency of versions", "seconds since the version before", GREEN),
    ):
        points = Spool(2, ((row.time_s, getattr(row, column)) for row in run.versions))
        figure, axes = over_time(seconds=run.total.seconds, label=label)
        banded(axes, points, run.total.seconds, colour)
        axes.set_ylim(bottom=0)
        mean, unit = sum(value for _, value in points) / len(points), " s" if column == "latency_s" else ""
        most = f"{number(max(value for _, value in points))}{unit} at most"
        gist = f"{number(mean)}{unit} on average over {plural(len(points), 'version')}, {most}. {BAND}"
        yield ReportFigure(name=name, title=title, gist=gist, figure=figure)


def banded(axes: Axes, points: Spool, seconds: float, colour: str) -> None:
    """Draw the quantiles and, unless there are too many, each value."""
    found = band(points, seconds)
    if len(points) <= _MOST_DOTS:
        axes.plot(*zip(*points, strict=True), ".", color=colour, markersize=3.5, alpha=0.6, markeredgewidth=0)
    axes.fill_between(found.time, found.low, found.high, color=colour, alpha=0.25, linewidth=0)
    axes.plot(found.time, found.middle, color=colour)


def _median(counts: Mapping[int, int]) -> int:
    """The lower median of values that are counted."""
    values = sorted(counts)
    sums = list(itertools.accumulate(counts[value] for value in values))
    return values[bisect.bisect_right(sums, (sums[-1] - 1) // 2)]


def _name(metric: str, place: int) -> str:
    """A name for the file: the task may give a metric any name."""
    return metric if metric in _COLOURS else f"metric-{place}-{re.sub('[^A-Za-z0-9]+', '-', metric).strip('-')}"


def _title(metric: str) -> str:
    return f"{metric[:1].upper()}{metric[1:].replace('_', ' ')} over time"
