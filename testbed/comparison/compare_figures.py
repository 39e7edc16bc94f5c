"""Figures of a comparison: the metric over seconds, joules and bytes. Importing this module imports matplotlib."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from testbed.common.files.file_names import file_name
from testbed.comparison.compared_runs import ComparedRun
from testbed.comparison.comparison import Comparison
from testbed.comparison.curves import AXES, Axis, MetricCurve, curves
from testbed.report.figures.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    ReportFigure,
    axes_of,
    style,
)

_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, INK)
_STYLES = ("solid", "dashed", "dashdot", "dotted")
"""In addition to colours, for printing in black and white; the combinations repeat after 28 groups."""
_WIDTH, _HEIGHT = 3.6, 2.4
"""Inches: three figures side by side on a screen, with legible text on a phone."""
_LINE_INCHES = 0.19
"""Height of a line of the legend."""


def figures(comparison: Comparison, runs: Sequence[ComparedRun]) -> list[ReportFigure]:
    """Return all figures without writing a file; ``runs`` are those that were compared, in their order."""
    with style():
        return list(draw(comparison, runs))


def draw(comparison: Comparison, runs: Sequence[ComparedRun]) -> Iterator[ReportFigure]:
    """Draw all figures; call it within ``testbed.report.figures.style.style()``, in which they must also be saved."""
    groups = [row.group for row in comparison.runs]
    for axis in AXES:
        if found := curves(runs, groups, axis, comparison.metric):
            yield _picture(found, axis, comparison.metric, comparison.target)


def _picture(found: Sequence[MetricCurve], axis: Axis, metric: str, target: float) -> ReportFigure:
    figure, axes = axes_of(width=_WIDTH, height=_HEIGHT + _LINE_INCHES * len(found))
    for number, curve in enumerate(found):
        colour, style = _COLOURS[number % len(_COLOURS)], _STYLES[number % len(_STYLES)]
        label = f"{curve.label}, {curve.runs} runs" if curve.runs > 1 else curve.label
        axes.plot(curve.x, curve.mean, color=colour, linestyle=style, label=label)
        if curve.runs > 1:
            axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0)
    axes.axhline(target, color=GREY, linewidth=0.8, linestyle=(0, (1, 3)))
    axes.set(xlabel=axis.title, ylabel=metric)
    axes.set_xlim(left=0)
    axes.grid(visible=True)
    figure.legend(loc="outside lower center", handlelength=3.2)
    ends = "; ".join(f"{curve.label} ends at {curve.mean[-1]:.3g}" for curve in found)
    title = f"{metric[:1].upper()}{metric[1:]} over {axis.title}"
    return ReportFigure(name=f"{file_name(metric)}-over-{axis.name}", title=title, gist=ends, figure=figure)
