"""The figure of the fleet's timeline: one lane for each device.

The lanes are an image, whose size does not depend on the number of events. Drops and scripted events, which would
disappear in it, are drawn on top.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.lines import Line2D
from matplotlib.markers import TICKUP
from matplotlib.patches import Patch, Rectangle

from testbed.report.content.device_lanes import IDLE, LANE_STATES, Cells, Lanes
from testbed.report.content.report_data import RunData
from testbed.report.content.wording import plural, share
from testbed.report.figures.style import (
    FULL_WIDTH,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    ReportFigure,
    axes_of,
    name_rows,
)

COLOURS: dict[str, str] = {
    IDLE: "#80808029",
    "download": SKY,
    "computing": GREEN,
    "upload": ORANGE,
    "suspended": PURPLE,
    "abandoned": VERMILLION,
    "dead": "#606060",
    "waiting": "#F0E442",
}
_LANE, _LOWEST, _HIGHEST, _AROUND = 0.2, 0.6, 7.0, 0.75
"""Inches: height of a lane, minimum and maximum of all lanes, and the space around them."""
_MOST_ROWS = 1000
_MOST_TICKS = 400
_MOST_NAMED = 3


def fleet(run: RunData) -> Iterator[ReportFigure]:
    lanes = run.lanes
    count = len(lanes.devices)
    if not count:
        return
    inside = min(_HIGHEST, max(_LOWEST, _LANE * count))
    figure, axes = axes_of(width=FULL_WIDTH, height=inside + _AROUND)
    axes.imshow(
        _image(lanes.cells), extent=(0.0, lanes.seconds or 1.0, count - 0.5, -0.5), aspect="auto", interpolation="none"
    )
    axes.set(xlabel="emulated seconds", xlim=(0, lanes.seconds or 1.0), ylim=(count - 0.5, -0.5))
    name_rows(axes, lanes.devices, inside / count)
    points = 72 * inside / count
    states = [state for state in LANE_STATES if _has(lanes, state)]
    legend: list[Patch | Line2D] = [Patch(color=COLOURS[state], label=state) for state in states]
    legend += _marks(axes, lanes.drops, "x", "lost transfer", points)
    legend += _marks(axes, _scripted(lanes), "v", "scripted event", points)
    legend += _versions(axes, run)
    figure.legend(handles=legend, loc="outside upper left", ncols=len(legend), columnspacing=1.2)
    for lane in range(count):
        axes.add_patch(Rectangle((0, lane - 0.5), lanes.seconds, 1, facecolor="none", linewidth=0, gid=f"lane-{lane}"))
    yield ReportFigure(
        name="timeline",
        title="Timeline of the fleet",
        gist=_gist(run),
        figure=figure,
        wide=True,
        hints={f"lane-{lane}": _hint(lanes, lane) for lane in range(count)},
    )


def _image(cells: Cells) -> npt.NDArray[np.uint8]:
    """Several rows of pixels for each lane, so that it stays sharp when enlarged, and a gap below."""
    colours = (np.array([to_rgba(COLOURS[state]) for state in LANE_STATES]) * 255).round().astype(np.uint8)
    rows = max(2, min(16, _MOST_ROWS // max(1, len(cells))))
    image = np.repeat(colours[cells], rows, axis=0)
    if rows >= 5:
        image[rows - 1 :: rows] = 0
    return image


def _has(lanes: Lanes, state: str) -> bool:
    return bool((lanes.cells == LANE_STATES.index(state)).any())


def _marks(axes: Axes, marks: Sequence[tuple[int, float]], marker: str, label: str, points: float) -> list[Line2D]:
    """Draw marks on their lanes, not larger than a lane."""
    if not marks:
        return []
    rows, moments = zip(*marks, strict=True)
    size = min(4.5, max(1.2, 0.6 * points))
    return axes.plot(moments, rows, marker, color=INK, markersize=size, markeredgewidth=min(0.9, size / 4), label=label)


def _scripted(lanes: Lanes) -> list[tuple[int, float]]:
    lane_of = {device: lane for lane, device in enumerate(lanes.devices)}
    return [(lane_of[event.device], event.t) for event in lanes.scripted]


def _versions(axes: Axes, run: RunData) -> list[Line2D]:
    """Draw a tick above the lanes for each version, unless there are too many."""
    moments = run.total.made.moments
    if not 0 < len(run.versions) <= _MOST_TICKS:
        return []
    places = axes.get_xaxis_transform()
    return axes.plot(
        moments,
        [1.0] * len(moments),
        linestyle="none",
        marker=TICKUP,
        color=INK,
        markersize=4,
        markeredgewidth=0.6,
        clip_on=False,
        transform=places,
        label="version",
    )


def _hint(lanes: Lanes, lane: int) -> str:
    return f"{lanes.devices[lane]}: {_states(lanes.shares[:, lane])}"


def _states(shares: npt.NDArray[np.float64]) -> str:
    parts = zip(LANE_STATES, shares, strict=True)
    return ", ".join(f"{state} {share(float(part))}" for state, part in parts if part > 0)


def _gist(run: RunData) -> str:
    lanes = run.lanes
    states = _states(lanes.shares.mean(axis=1))
    gist = f"{plural(len(lanes.devices), 'device')}, one lane each, over {lanes.seconds:.1f} s: {states}."
    if lanes.dropped:
        gist += f" {plural(lanes.dropped, 'lost transfer')}."
    if lanes.scripted:
        named = ", ".join(f"{event.do} {event.device} at {event.t:.1f} s" for event in lanes.scripted[:_MOST_NAMED])
        more = f" and {len(lanes.scripted) - _MOST_NAMED} more" if len(lanes.scripted) > _MOST_NAMED else ""
        gist += f" Scripted: {named}{more}."
    return gist
