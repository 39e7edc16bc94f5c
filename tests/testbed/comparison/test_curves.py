"""Mean and range of several runs over one axis."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.comparison.curves import AXES, curves
from tests.testbed.comparison.written import read, write

SECONDS, JOULES, BYTES = AXES


def test_a_curve_is_the_mean_with_the_range_of_its_runs(tmp_path: Path) -> None:
    runs = read(write(tmp_path / "a", scores=(0.2, 0.4, 0.6)), write(tmp_path / "b", scores=(0.4, 0.4, 0.8), seed=2))
    [curve] = curves(runs, ["x", "x"], SECONDS, "accuracy")
    assert (curve.label, curve.runs, curve.x[0], curve.x[-1]) == ("x", 2, 2.0, 6.0)
    assert (curve.mean[0], curve.low[0], curve.high[0]) == pytest.approx((0.3, 0.2, 0.4))
    assert (curve.mean[-1], curve.low[-1], curve.high[-1]) == pytest.approx((0.7, 0.6, 0.8))


def test_a_curve_ends_with_its_shortest_run(tmp_path: Path) -> None:
    runs = read(write(tmp_path / "a"), write(tmp_path / "b", every=1.0, seed=2))
    [curve] = curves(runs, ["x", "x"], SECONDS, "accuracy")
    assert (curve.x[0], curve.x[-1]) == (2.0, 3.0)


def test_runs_that_never_overlap_have_no_curve(tmp_path: Path) -> None:
    runs = read(write(tmp_path / "a"), write(tmp_path / "b", every=0.25, seed=2))
    assert curves(runs, ["x", "x"], SECONDS, "accuracy") == []
    assert len(curves(runs, ["x", "y"], SECONDS, "accuracy")) == 2


def test_joules_and_bytes_are_axes_if_every_run_has_them(tmp_path: Path) -> None:
    runs = read(write(tmp_path / "a"), write(tmp_path / "b", "other", watts=False))
    [curve] = curves(runs, ["x", "y"], JOULES, "accuracy")
    assert (curve.label, curve.x[-1]) == ("x", pytest.approx(6.0))  # one watt in every state
    moved = curves(runs, ["x", "y"], BYTES, "accuracy")
    assert [(curve.label, curve.x[0], curve.x[-1]) for curve in moved] == [("x", 2.0, 6.0), ("y", 2.0, 6.0)]
