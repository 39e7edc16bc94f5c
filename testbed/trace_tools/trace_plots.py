"""Figures of traces. matplotlib is imported only when one is drawn."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict

from testbed.common.errors import UserError
from testbed.trace_tools import incidents
from testbed.trace_tools.incidents import IncidentSpan
from testbed.trace_tools.trace_summary import PHASES, RunSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class LineStyle(TypedDict):
    """Arguments of ``Axes.plot``."""

    marker: str
    markersize: NotRequired[float]
    linewidth: float
    alpha: float


_MOST_NAMED = 12
"""Maximum number of devices in a legend."""
_MOST_LINES = 50
"""Maximum number of devices with a line each; for more, only points are drawn."""
_FEW: LineStyle = {"marker": ".", "markersize": 3, "linewidth": 0.6, "alpha": 0.8}
_MANY: LineStyle = {"marker": ",", "linewidth": 0, "alpha": 0.3}
_MOST_VALUES = 100
"""Maximum number of bars with their value beside them."""
_LANE, _POINTS = 0.15, 20.0
"""Height of a kind of incident in the row of a device, which is 1; line width in a figure of one device."""
_COLOURS = ("0.6", "0.2", "tab:cyan", "tab:olive", "tab:pink", "tab:red")
"""Colours of the kinds of incidents."""


def check() -> None:
    """Raise UserError if matplotlib is missing; called before a trace is read."""
    _figure(1)


def delays(run: RunSummary, path: Path, title: str) -> None:
    """Draw the seconds of each transfer and job over time, one colour per device, and the incidents."""
    spans = list(incidents.spans(run))
    figure = _figure(len(PHASES) + bool(spans))
    panels = figure.subplots(len(PHASES) + bool(spans), 1, sharex=True)
    style = _FEW if len(run.devices) <= _MOST_LINES else _MANY
    for phase, axes in zip(PHASES, panels, strict=False):
        for i, (name, device) in enumerate(run.devices.items()):
            seconds = getattr(device, phase)
            axes.plot(seconds.ended, seconds.obtained, color=f"C{i % 10}", label=name, **style)
        _finish(axes, f"{phase} (s)")
    if spans:
        _timeline(panels[-1], spans, list(run.devices))
    panels[0].set(title=title)
    panels[-1].set(xlabel="emulated seconds")
    if len(run.devices) <= _MOST_NAMED:
        panels[0].legend(fontsize=7, ncols=4)
    _save(figure, path)


def _timeline(axes: Axes, spans: list[IncidentSpan], devices: list[str]) -> None:
    """Draw a row per device, from the top, with a lane for each kind of incident."""
    row = {name: place for place, name in enumerate(devices)}
    for lane, (kind, colour) in enumerate(zip(incidents.KINDS, _COLOURS, strict=True)):
        own = [span for span in spans if span.kind == kind and span.device in row]
        heights = [row[span.device] + (lane - len(incidents.KINDS) // 2) * _LANE for span in own]
        if own:
            begins, ends = [span.begin for span in own], [span.end for span in own]
            axes.hlines(heights, begins, ends, colors=colour, linewidth=max(0.5, _POINTS / len(devices)), label=kind)
        for span, height in zip(own, heights, strict=True):
            if span.value is not None and len(spans) <= _MOST_VALUES:
                axes.text(span.begin, height, f"{span.value:g}", fontsize=6, va="center", ha="right")
    axes.set(ylabel="incidents", ylim=(len(devices) - 0.5, -0.5))
    if len(devices) <= _MOST_NAMED:
        axes.set_yticks(range(len(devices)), devices, fontsize=7)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, ncols=len(incidents.KINDS), loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.1)


def steps(rows: Iterable[tuple[float, float]], end: float, path: Path, title: str, unit: str) -> None:
    """Draw a rate or availability over time."""
    moments, values = zip(*rows, strict=True)
    figure = _figure(1)
    axes = figure.subplots()
    axes.step([*moments, end], [*values, values[-1]], where="post", linewidth=0.9)
    axes.set(xlabel="seconds", title=title)
    _finish(axes, unit)
    _save(figure, path)


def _finish(axes: Axes, unit: str) -> None:
    """Set the y axis from 0 to a little above the largest value."""
    most = axes.dataLim.ymax
    axes.set(ylabel=unit, ylim=(0, 1.05 * most if 0 < most < math.inf else 1))
    axes.grid(alpha=0.3)


def _figure(panels: int) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("--png: needs matplotlib, which is not installed; install it: pip install matplotlib") from None
    return Figure(figsize=(9, 2 + 1.8 * panels), layout="constrained")


def _save(figure: Figure, path: Path) -> None:
    try:
        figure.savefig(path, dpi=120, format="png")
    except OSError as error:
        raise UserError(f"--png {path}: cannot be written: {error.strerror}; choose another file") from None
