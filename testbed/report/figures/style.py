"""How figures look, on a page and in a paper: one style, colours that most eyes tell apart, and an ink.

A figure is drawn once. The ink is nearly black, so that it is right on paper, and no other colour, so that a page can
replace it by the colour of its own text, by day and by night.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline

from testbed.report.content.wording import printable

INK = "#000001"
# Okabe and Ito, without their yellow, which is too faint on white
ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE = "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"
GREY = "#8A8A8A"
WIDTH, HEIGHT = 4.3, 2.6
"""Inches: two beside one another on a desk, one on a phone, one column of a paper."""
FULL_WIDTH = 8.6
_MOST_LABELLED = 5.0
"""Inches: as high as a figure with a row for each device gets."""
_MOST_APART = 60
"""Rows that have room for a gap between them."""
_STYLE: Any = {
    "font.size": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.5,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.13,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.handlelength": 1.4,
    "legend.borderaxespad": 0.2,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "edgebed",
    "pdf.fonttype": 42,
    "text.parse_math": False,
}
"""Text stays text, and no name is a formula because of its dollar signs."""
_NO_DATES = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""The same run gives the same file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFigure:
    """A figure, and what it says in words."""

    name: str
    title: str
    gist: str
    figure: Figure
    wide: bool = False
    titles: dict[str, str] = field(default_factory=dict)
    """Name of a part (gid) → what is told of it to whoever points at it."""


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Our settings, whatever a user's matplotlibrc says. Drawing and saving both belong in here."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it tells when it looks for fonts
    with mpl.rc_context(), warnings.catch_warnings():
        # text of an SVG is drawn by a browser, with its own fonts; only a PDF may miss a glyph
        warnings.filterwarnings("ignore", r"Glyph \d+ |Matplotlib currently does not support")
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def axes_of(*, height: float = HEIGHT, width: float = WIDTH) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def over_time(*, seconds: float, label: str) -> tuple[Figure, Axes]:
    figure, axes = axes_of()
    axes.set(xlabel="emulated seconds", ylabel=label, xlim=(0, seconds or 1.0))
    axes.grid(visible=True)
    return figure, axes


def by_device(names: Sequence[str], label: str) -> tuple[Figure, Axes]:
    """A row for each device, from the top; as many of them are named as there is room for."""
    figure, axes = axes_of(height=min(_MOST_LABELLED, 1.0 + 0.21 * max(4, len(names))))
    axes.set(xlabel=label, ylim=(len(names) - 0.4, -0.6))
    name_rows(axes, names, (figure.get_figheight() - 1.0) / max(4, len(names)))
    axes.grid(visible=True, axis="x")
    return figure, axes


def name_rows(axes: Axes, names: Sequence[str], inches: float) -> None:
    """Label every row that is so high, or every so-manieth."""
    every = max(1, int(np.ceil(0.13 / inches)))
    axes.set_yticks(range(0, len(names), every), [_short(name) for name in names[::every]])
    axes.tick_params(axis="y", length=0)


def _short(name: str, most: int = 18) -> str:
    """The end of a name tells devices of a group apart."""
    return name if len(name) <= most else f"{name[: most - 9]}…{name[-8:]}"


def bars(axes: Axes, starts: Sequence[float], ends: Sequence[float], colour: str, label: str) -> None:
    """Horizontal bars, one for each row, as a single outline: a picture of 500 devices must not have 5000 parts."""
    half = 0.38 if len(starts) <= _MOST_APART else 0.5
    points: list[tuple[float, float]] = []
    for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
        if end > start:
            points += [(start, row - half), (end, row - half), (end, row + half), (start, row + half), (start, row)]
    if points:
        codes = [Outline.MOVETO, Outline.LINETO, Outline.LINETO, Outline.LINETO, Outline.CLOSEPOLY]
        outline = Outline(points, codes * (len(points) // len(codes)))
        axes.add_patch(PathPatch(outline, facecolor=colour, linewidth=0, label=label))


def stacked(axes: Axes, parts: Mapping[str, Sequence[float]], colours: Mapping[str, str]) -> None:
    """Bars of several parts, one behind the other, with a legend of those that are there."""
    reached = np.zeros(len(next(iter(parts.values()), ())))
    for name, values in parts.items():
        bars(axes, list(reached), list(reached + values), colours.get(name, GREY), name)
        reached = reached + np.asarray(values)
    axes.set_xlim(0, float(reached.max(initial=0.0)) * 1.02 or 1.0)
    legend_above(axes)


def legend_above(axes: Axes, columns: int = 3) -> None:
    """Not so wide that the layout would make room for it at the cost of the axes."""
    handles, labels = axes.get_legend_handles_labels()
    if labels and isinstance(axes.figure, Figure):
        axes.figure.legend(handles, labels, loc="outside upper left", ncols=columns, columnspacing=1.2)


def svg(figure: Figure) -> str:
    _settle(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata=_NO_DATES["svg"])
    return printable(buffer.getvalue().decode())


def save(picture: ReportFigure, folder: Path) -> list[Path]:
    """As SVG and as PDF, for a paper."""
    drawn, printed = (folder / f"{picture.name}.{kind}" for kind in _NO_DATES)
    drawn.write_text(svg(picture.figure), encoding="utf-8")
    picture.figure.savefig(printed, metadata=_NO_DATES["pdf"])
    return [drawn, printed]


def _settle(figure: Figure) -> None:
    """Lay it out once and for all: it would come out a little different, and slowly, each time that it is saved."""
    if isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine):
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
