"""The style of figures on a page and in a paper: colours for readers with colour blindness, and an ink.

A figure is drawn once. The ink is nearly black, which suits paper, and no other colour is equal to it, so that a page
can replace it by the colour of its text, in light and dark mode.
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
from matplotlib.backends.backend_svg import RendererSVG
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline

from testbed.report.content.wording import printable
from testbed.report.figures import layout

INK = "#000001"
# Okabe and Ito, without their yellow, which is too faint on white
ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE = "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"
GREY = "#8A8A8A"
WIDTH, HEIGHT = 4.3, 2.6
"""Inches: two figures side by side on a screen, one on a phone, one in a column of a paper."""
FULL_WIDTH = 8.6
_MOST_LABELLED = 5.0
"""Inches: maximum height of a figure with a row for each device."""
_MOST_APART = 60
"""Maximum number of rows with a gap between them."""
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
"""Text stays text in the files, and dollar signs in a name do not make a formula."""
_POINTS_PER_INCH = 72.0
_NO_DATES = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""Without dates, the same run gives the same file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFigure:
    """A figure with its name, its title, and a sentence about what it shows."""

    name: str
    title: str
    gist: str
    figure: Figure
    wide: bool = False
    hints: dict[str, str] = field(default_factory=dict)
    """Name of a part (gid) → the text that a page shows when the pointer is on it."""


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Use our settings instead of a user's matplotlibrc; drawing and saving must both happen within."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it logs each search for a font
    with mpl.rc_context(), warnings.catch_warnings():
        # a browser draws the text of an SVG with its own fonts; only a PDF may lack a glyph
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
    """Axes with a row for each device, from the top; as many rows have labels as fit."""
    figure, axes = axes_of(height=min(_MOST_LABELLED, 1.0 + 0.21 * max(4, len(names))))
    axes.set(xlabel=label, ylim=(len(names) - 0.4, -0.6))
    name_rows(axes, names, (figure.get_figheight() - 1.0) / max(4, len(names)))
    axes.grid(visible=True, axis="x")
    return figure, axes


def name_rows(axes: Axes, names: Sequence[str], inches: float) -> None:
    """Label the rows, which are ``inches`` high; if that is too little for a label, only every n-th."""
    every = max(1, int(np.ceil(0.13 / inches)))
    axes.set_yticks(range(0, len(names), every), [_short(name) for name in names[::every]])
    axes.tick_params(axis="y", length=0)


def _short(name: str, most: int = 18) -> str:
    """A name with its middle left out: the end distinguishes the devices of a group."""
    return name if len(name) <= most else f"{name[: most - 9]}…{name[-8:]}"


def bars(axes: Axes, starts: Sequence[float], ends: Sequence[float], colour: str, label: str) -> None:
    """Horizontal bars, one for each row, as a single outline: a figure of 500 devices must not have 5000 parts."""
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
    """Bars that consist of several parts, with a legend."""
    reached = np.zeros(len(next(iter(parts.values()), ())))
    for name, values in parts.items():
        bars(axes, list(reached), list(reached + values), colours.get(name, GREY), name)
        reached = reached + np.asarray(values)
    axes.set_xlim(0, float(reached.max(initial=0.0)) * 1.02 or 1.0)
    legend_above(axes)


def legend_above(axes: Axes, columns: int = 3) -> None:
    """A legend above the axes, in few columns so that the axes keep their width."""
    handles, labels = axes.get_legend_handles_labels()
    if labels and isinstance(axes.figure, Figure):
        axes.figure.legend(handles, labels, loc="outside upper left", ncols=columns, columnspacing=1.2)


def svg(figure: Figure) -> str:
    """Return the figure as SVG, and settle its layout.

    One renderer measures and draws, so that each text is measured once (savefig would use several).
    """
    buffer, dpi = io.StringIO(), figure.dpi
    figure.dpi = _POINTS_PER_INCH
    try:
        width, height = figure.bbox.size
        renderer = RendererSVG(width, height, buffer, metadata=_NO_DATES["svg"])  # type: ignore[no-untyped-call]
        layout.settle(figure, renderer)
        figure.draw(renderer)
        renderer.finalize()  # type: ignore[no-untyped-call]
    finally:
        figure.dpi = dpi
    return printable(buffer.getvalue())


def save(picture: ReportFigure, folder: Path) -> list[Path]:
    """Save the figure as SVG and PDF; returns both paths."""
    drawn, printed = (folder / f"{picture.name}.{kind}" for kind in _NO_DATES)
    drawn.write_text(svg(picture.figure), encoding="utf-8")
    picture.figure.savefig(printed, metadata=_NO_DATES["pdf"])
    return [drawn, printed]
