"""Axes are where matplotlib's constrained layout would put them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.figure import Figure

from testbed.report.figures import style

NEAR = 2.5
"""Points: our renderer measures text without hints, that of the constrained layout with them."""


@pytest.fixture(autouse=True)
def our_style() -> Iterator[None]:
    with style.style():
        yield


def curve(top: float) -> Figure:
    figure, axes = style.over_time(seconds=40.0, label="seconds")
    axes.plot([0, 40], [0, top])
    return figure


def energy(names: list[str]) -> Figure:
    figure, axes = style.by_device(names, "joules")
    parts = {
        "idle": [1.0] * len(names),
        "compute": [2.0] * len(names),
        "transmit": [3.0] * len(names),
        "more": [0.1] * len(names),
    }
    style.stacked(axes, parts, {})
    return figure


FIGURES = {
    "a curve": lambda: curve(1.0),
    "a curve with long labels": lambda: curve(12_345_678.0),
    "bars with a legend": lambda: energy(["rpi4-1", "phone-low-2"]),
    "many bars with long names": lambda: energy([f"{'long' * 9}-{place}" for place in range(100)]),
}


def inches(figure: Figure) -> npt.NDArray[np.float64]:
    return np.asarray(figure.axes[0].get_position().get_points() * figure.get_size_inches())


@pytest.mark.parametrize("name", FIGURES)
def test_axes_are_at_the_place_of_the_constrained_layout(name: str) -> None:
    ours, theirs = FIGURES[name](), FIGURES[name]()
    theirs.draw_without_rendering()
    style.svg(ours)
    assert np.abs(inches(ours) - inches(theirs)).max() * 72 < NEAR
    assert ours.axes[0].get_in_layout()


def test_a_second_svg_is_equal() -> None:
    figure = curve(1.0)
    dpi = figure.dpi
    assert style.svg(figure) == style.svg(figure)
    assert figure.dpi == dpi


def test_several_axes_do_not_overlap() -> None:
    figure = Figure(figsize=(4, 3), layout="constrained")
    upper, lower = figure.subplots(2, 1)
    upper.set_xlabel("seconds")
    style.svg(figure)
    assert upper.get_position().y0 > lower.get_position().y1 + 0.1


def test_a_legend_that_fills_the_figure_leaves_the_axes_where_they_can_be_seen() -> None:
    figure, axes = style.axes_of(height=1.0)
    for place in range(60):
        axes.plot([0, 1], [0, 1], label=f"line {place}")
    style.legend_above(axes, columns=1)
    style.svg(figure)
    assert axes.get_position().height > 0
