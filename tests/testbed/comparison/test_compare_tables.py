"""Formatting of numbers in tables."""

from __future__ import annotations

import pytest

from testbed.comparison.compare_tables import mean, number
from testbed.comparison.interval import mean as average


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (16.0, "16"),
        (0.912345, "0.9123"),
        (12.3456, "12.35"),
        (1234.5, "1234"),
        (1234567.0, "1 234 567"),
        (-0.5, "−0.5000"),
        (0.0000012, "0.000001"),
        (-12345.6, "−12 346"),
    ],
)
def test_a_number_has_four_figures(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("values", "scale", "text"),
    [
        ([], 1.0, "–"),
        ([0.91234], 1.0, "0.9123"),
        ([1.0, 2.0, 3.0], 1.0, "2.0 ± 2.5"),
        ([1e6, 2e6, 3e6], 1e6, "2.0 ± 2.5"),
        ([5.0, 5.0], 1.0, "5 ± 0"),
        ([0.0, 0.0], 1.0, "0 ± 0"),
        ([1e6, 1e6], 1.0, "1 000 000 ± 0"),
        ([0.667, 0.667 + 1e-16 * 2], 1.0, "0.6670 ± 0"),
        ([123456.7, 123456.7], 1.0, "123 457 ± 0"),
        ([-0.5, -0.5], 1.0, "−0.5000 ± 0"),
        ([-1.0, -1.01], 1.0, "−1.005 ± 0.064"),
    ],
)
def test_a_mean_has_as_many_digits_as_its_interval_justifies(values: list[float], scale: float, text: str) -> None:
    assert mean(average(values), scale) == text
