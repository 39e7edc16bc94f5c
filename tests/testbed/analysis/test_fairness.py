"""Measures of fairness, calculated by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.analysis import fairness


@pytest.mark.parametrize(
    ("shares", "jain", "gini"),
    [
        ([1.0], 1.0, 0.0),
        ([2.0, 2.0, 2.0], 1.0, 0.0),
        ([0.0, 0.0, 0.0, 5.0], 1 / 4, 3 / 4),  # one has all: 1/n, and 1 − 1/n
        ([1.0, 3.0], 16 / 20, 4 / 16),  # 4² ÷ (2·(1 + 9)); |1 − 3|·2 ÷ (2·2·4)
        ([4.0, 1.0, 1.0], 36 / 54, 12 / 36),  # 6² ÷ (3·18); (3 + 3)·2 ÷ (2·3·6)
        ([0.0, 0.5, 0.5], 1 / 1.5, 2 / 6),
    ],
)
def test_shares_by_hand(shares: list[float], jain: float, gini: float) -> None:
    assert fairness.jain(shares) == pytest.approx(jain)
    assert fairness.gini(shares) == pytest.approx(gini)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=20).filter(any), st.integers(1, 50))
def test_neither_depends_on_units_or_order_and_both_have_their_range(shares: list[int], unit: int) -> None:
    others, count = [float(share * unit) for share in reversed(shares)], len(shares)
    for measure, least, most in ((fairness.jain, 1 / count, 1.0), (fairness.gini, 0.0, 1 - 1 / count)):
        found = measure([float(share) for share in shares])
        assert measure(others) == pytest.approx(found)
        assert least - 1e-9 <= found <= most + 1e-9


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=20).filter(any))
def test_gini_is_the_mean_difference_of_all_pairs(shares: list[int]) -> None:
    pairs = sum(abs(one - other) for one in shares for other in shares)
    assert fairness.gini(shares) == pytest.approx(pairs / (2 * len(shares) * sum(shares)))
