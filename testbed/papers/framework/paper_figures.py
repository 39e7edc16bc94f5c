"""Curves over seeds, for the figures of the chapters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from testbed.papers.framework.result import Result
from testbed.report.figures.style import BLUE, GREEN, INK, ORANGE, PURPLE, SKY, VERMILLION

COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, INK)
STYLES = ("solid", "dashed", "dashdot", "dotted")
_POINTS = 200


def curves(
    axes: Axes, number: int, label: str, results: Sequence[Result], metric: str = "accuracy", over: str = "time_s"
) -> None:
    """Plot the mean and the range of the runs, as far as all of them go. ``number`` chooses colour and style of the
    line."""
    lines = [result.curve(metric, over) for result in results]
    start, end = max((x[0] for x, _ in lines), default=0.0), min((x[-1] for x, _ in lines), default=-1.0)
    if start > end:
        return
    grid = np.linspace(start, end, _POINTS)
    values = np.array([np.interp(grid, x, y) for x, y in lines])
    colour, style = COLOURS[number % len(COLOURS)], STYLES[number % len(STYLES)]
    axes.plot(grid, values.mean(axis=0), color=colour, linestyle=style, label=label)
    if len(lines) > 1:
        axes.fill_between(grid, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.15, linewidth=0)
