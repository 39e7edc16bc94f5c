"""A heat map of samples, labels × devices. matplotlib is imported only when one is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from testbed.common.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_CELL_WIDTH, _CELL_HEIGHT, _WIDE_CELL = 0.5, 0.24, 0.9
"""Inches of a cell if there is room: enough for four digits; the last one is the limit for long device names."""
_LEAST_WIDTH, _MOST_WIDTH = 4.0, 11.0
_LEAST_HEIGHT, _MOST_HEIGHT = 1.6, 9.0
"""Inches of all cells together."""
_DIGIT, _LETTER, _LINE = 0.065, 0.075, 0.15
"""Inches of a digit in a cell, of a letter of a name, and of the height of a name."""
_MANY_TIMES = 10
"""Largest shard / median shard above which the scale is logarithmic: a linear one would show few devices only."""
_PALEST = 0.13
"""Where the colours begin (0 to 1): a single sample must differ from none, which is white."""
_LONGEST = 24
"""Letters of a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatmapGrid:
    """What a heat map shows."""

    title: str
    counts: npt.NDArray[np.int64]
    """Rows × devices."""
    rows: Sequence[str]
    devices: Sequence[str]
    kind: str = "label"
    """What a row stands for."""

    @property
    def width(self) -> float:
        """Width of a cell in inches."""
        longest = (max(map(len, self.devices)) + 1) * _LETTER
        wanted = longest if _CELL_WIDTH < longest <= _WIDE_CELL else _CELL_WIDTH
        return _between(_LEAST_WIDTH, len(self.devices) * wanted, _MOST_WIDTH) / len(self.devices)

    @property
    def height(self) -> float:
        return _between(_LEAST_HEIGHT, len(self.rows) * _CELL_HEIGHT, _MOST_HEIGHT) / len(self.rows)

    @property
    def is_skewed(self) -> bool:
        sizes = self.counts.sum(axis=0)
        return bool(sizes.max() > _MANY_TIMES * np.median(sizes))

    @property
    def has_room_for_counts(self) -> bool:
        return self.width > _DIGIT * (len(str(self.counts.max(initial=0))) + 1) and self.height >= 0.13


def check() -> None:
    """Raise UserError if matplotlib is not installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise UserError("--png: needs matplotlib, which is not installed; install it: pip install matplotlib") from None


def draw(grid: HeatmapGrid, path: Path) -> None:
    """Write the heat map as a PNG. Raises UserError if that is not possible."""
    check()
    from matplotlib.ticker import MaxNLocator

    from testbed.report.figures import style

    with style.style():
        size = (grid.width * len(grid.devices) + 1.9, grid.height * len(grid.rows) + 1.3)
        figure, axes = style.axes_of(width=size[0], height=size[1])
        image = _cells(axes, grid)
        _name(axes, grid)
        style.name_rows(axes, grid.rows, grid.height)
        if grid.has_room_for_counts:
            _write_counts(axes, grid, image, style.INK)
        figure.suptitle(grid.title, size=10, wrap=True)
        bar = figure.colorbar(image, ax=axes, pad=0.02, aspect=30, format="{x:g}")
        bar.set_label("samples (logarithmic)" if grid.is_skewed else "samples")
        if not grid.is_skewed:
            bar.locator = MaxNLocator(integer=True)
            bar.update_ticks()
        _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    try:
        figure.savefig(path, dpi=120, format="png", facecolor="white")
    except OSError as error:
        raise UserError(f"--png {path}: cannot be written: {error.strerror}; choose another file") from None


def _cells(axes: Axes, grid: HeatmapGrid) -> AxesImage:
    """Draw the cells; those without samples stay white."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    colours = ListedColormap(colormaps["Blues"](np.linspace(_PALEST, 1.0, 256)))
    least = 1 if grid.is_skewed else 0
    return axes.imshow(
        np.ma.masked_equal(grid.counts, 0),
        cmap=colours,
        norm="log" if grid.is_skewed else "linear",
        vmin=least,
        vmax=max(int(grid.counts.max(initial=0)), least + 1),
        aspect="auto",
        interpolation="nearest",
    )


def _name(axes: Axes, grid: HeatmapGrid) -> None:
    """Name the devices below the cells: upright if names are long, and only every n-th if there is no room."""
    names = [_short(name) for name in grid.devices]
    upright = (max(map(len, names)) + 0.9) * _LETTER > grid.width
    every = _round(math.ceil(_LINE / grid.width)) if upright else 1
    axes.set_xticks(range(0, len(names), every), names[::every], rotation=90 if upright else 0)
    axes.tick_params(axis="x", length=0 if every == 1 else 2)
    axes.set(xlabel="device", ylabel=grid.kind)


def _write_counts(axes: Axes, grid: HeatmapGrid, image: AxesImage, ink: str) -> None:
    dark = np.asarray(image.norm(grid.counts)) > 0.5
    for row, column in np.argwhere(grid.counts):
        colour = "white" if dark[row, column] else ink
        axes.text(column, row, str(grid.counts[row, column]), ha="center", va="center", color=colour, size=7.5)


def _short(name: str) -> str:
    """Shorten a long name, but keep its end, in which devices of a group differ."""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 9]}…{name[-8:]}"


def _round(least: int) -> int:
    """Return the smallest of 1, 2, 5, 10, 20 … that is at least ``least``."""
    tens = 1
    while 5 * tens < least:
        tens *= 10
    return next(step * tens for step in (1, 2, 5) if step * tens >= least)


def _between(least: float, value: float, most: float) -> float:
    return max(least, min(value, most))
