"""Figures as text."""

from __future__ import annotations

import pytest

from testbed.common.console import milliseconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0000 ms"),
        (1e-7, "0.0001 ms"),
        (1.234e-5, "0.0123 ms"),
        (1.234e-3, "1.23 ms"),
        (0.01234, "12.3 ms"),
        (0.1234, "123 ms"),
        (1.234, "1234 ms"),
    ],
)
def test_milliseconds_have_three_significant_figures_and_at_most_four_decimals(seconds: float, text: str) -> None:
    assert milliseconds(seconds) == text
