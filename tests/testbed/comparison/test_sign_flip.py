"""The sign-flip test, by hand and by enumeration."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.comparison.sign_flip import DRAWN, EXACT_PAIRS, p_value, pairs_for, smallest


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([5.0], 1.0),  # one pair says nothing
        ([1.0, 2.0, 3.0], 2 / 8),
        ([-1.0, -2.0, -3.0], 2 / 8),
        ([1.0, -1.0], 1.0),  # no flip is nearer to 0
        ([3.0, 1.0, -1.0], 6 / 8),  # |±3 ±1 ±1| ≥ 3 in all but those with 1
        ([0.0, 0.0, 0.0], 1.0),
        ([0.1] * 6, 2 / 64),
    ],
)
def test_p_by_hand(differences: list[float], p: float) -> None:
    assert p_value(differences) == p


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=8))
def test_p_is_the_share_of_flips_that_are_as_extreme(differences: list[int]) -> None:
    flips = list(itertools.product((-1, 1), repeat=len(differences)))
    sums = [abs(sum(sign * each for sign, each in zip(signs, differences, strict=True))) for signs in flips]
    assert p_value([0.1 * each for each in differences]) == sum(each >= abs(sum(differences)) for each in sums) / len(
        flips
    )
    assert p_value(differences) >= smallest(len(differences))


def test_many_pairs_are_drawn_and_give_the_same_twice() -> None:
    differences = [1.0, -0.5] * 10
    first = p_value(differences)
    assert first == p_value(differences)
    assert 0 < first < 1
    assert p_value([1.0] * (EXACT_PAIRS + 1)) == pytest.approx(2**-16, abs=5 / DRAWN)  # never 0


def test_the_smallest_p_falls_by_half_with_each_pair() -> None:
    assert [smallest(pairs) for pairs in (1, 2, 5, 6)] == [1.0, 0.5, 0.0625, 0.03125]
    assert (pairs_for(0.05), pairs_for(0.01), pairs_for(1.0)) == (6, 8, 1)
    assert smallest(EXACT_PAIRS + 1) == 1 / (DRAWN + 1)
