from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from testbed.common.files.spool import Spool
from testbed.report.content import binning
from testbed.report.content.binning import STRETCHES, Band


def band(points: Sequence[tuple[float, float]], seconds: float) -> Band:
    return binning.band(Spool(2, points), seconds)


def test_few_values_are_one_stretch_with_their_quantiles() -> None:
    points = [(float(i), float(i)) for i in range(1, 6)]
    assert band(points, 10.0) == Band([5.0], [1.0], [3.0], [5.0])


def test_values_fall_into_the_stretch_of_their_moment() -> None:
    early, late = [(1.0, float(i)) for i in range(6)], [(9.0, 10.0 + i) for i in range(6)]
    assert band([*late, *early], 10.0) == Band([2.5, 7.5], [0.0, 10.0], [2.0, 12.0], [5.0, 15.0])


def test_a_stretch_without_values_is_left_out() -> None:
    points = [(0.5, 1.0)] * 6 + [(29.5, 3.0)] * 12
    assert band(points, 30.0).time == [5.0, 25.0]


def test_many_values_are_not_many_stretches() -> None:
    points = [(i / 100, float(i % 7)) for i in range(100_000)]
    found = band(points, 1000.0)
    assert len(found.time) == STRETCHES
    assert set(found.middle) == {3.0}


def test_a_value_at_the_very_end_counts() -> None:
    assert band([(10.0, 1.0)] * 6 + [(0.0, 0.0)] * 6, 10.0).middle == [0.0, 1.0]


def test_a_value_after_the_end_counts() -> None:
    assert band([(12.0, 1.0)], 10.0) == Band([6.0], [1.0], [1.0], [1.0])


def test_what_is_not_finite_is_left_out() -> None:
    assert band([(1.0, math.nan), (1.0, math.inf), (1.0, 2.0)], 2.0) == Band([1.0], [2.0], [2.0], [2.0])


@pytest.mark.parametrize("points", [[], [(1.0, math.nan)]])
def test_no_values_are_no_band(points: list[tuple[float, float]]) -> None:
    assert band(points, 2.0) == Band()


def test_a_run_of_no_seconds_has_a_band() -> None:
    assert band([(0.0, 1.0)], 0.0).middle == [1.0]


def test_the_band_does_not_depend_on_how_many_values_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [((37 * i) % 1000 / 10, float((13 * i) % 101)) for i in range(20_000)]
    whole = band(points, 100.0)
    monkeypatch.setattr(binning, "_MOST_AT_ONCE", 500)
    assert band(points, 100.0) == whole
