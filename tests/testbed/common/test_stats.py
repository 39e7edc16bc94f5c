"""Quantiles, complementary distributions and binomial tails, compared with values computed by hand."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.common.stats import binomial_tails, ccdf, is_plausible, quantile
from tests.properties import examples

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50)
TRIALS = st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
PROBABILITIES = st.floats(0.01, 0.99)


@pytest.mark.parametrize(
    ("q", "value"), [(0.0, 10), (0.2, 10), (0.21, 20), (0.4, 20), (0.5, 30), (0.8, 40), (0.81, 50), (0.99, 50), (1, 50)]
)
def test_a_quantile_is_the_value_at_the_nearest_rank(q: float, value: float) -> None:
    assert quantile([50, 20, 40, 10, 30], q) == value


def test_the_p99_of_a_hundred_values_is_the_second_largest() -> None:
    assert quantile(list(range(1, 101)), 0.99) == 99


def test_every_quantile_of_one_value_is_that_value() -> None:
    assert {quantile([7.0], q) for q in (0.0, 0.01, 0.5, 0.99, 1.0)} == {7.0}


def test_an_empty_list_has_no_quantile() -> None:
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)


@examples(100)
@given(NUMBERS, st.sampled_from([0.25, 0.5, 0.75, 1.0]))
def test_a_quantile_is_the_smallest_value_that_enough_values_do_not_exceed(values: list[float], q: float) -> None:
    enough = [v for v in values if sum(other <= v for other in values) >= q * len(values)]
    assert quantile(values, q) == min(enough)


def test_a_quantile_does_not_reorder_the_values() -> None:
    values = [3.0, 1.0, 2.0]
    quantile(values, 0.5)
    assert values == [3.0, 1.0, 2.0]


# ---- ccdf


def test_the_ccdf_gives_the_share_of_values_that_are_at_least_as_large() -> None:
    assert ccdf([3, 1, 2, 4]) == ([1, 2, 3, 4], [1.0, 0.75, 0.5, 0.25])


def test_the_ccdf_of_an_empty_list_is_empty() -> None:
    assert ccdf([]) == ([], [])


@examples(100)
@given(NUMBERS)
def test_a_ccdf_falls_from_one_and_stays_above_zero(values: list[float]) -> None:
    ordered, shares = ccdf(values)
    assert ordered == sorted(values)
    assert shares[0] == 1.0
    assert all(a > b for a, b in itertools.pairwise(shares))
    assert shares[-1] == pytest.approx(1 / len(values))


# ---- binomial


@pytest.mark.parametrize(
    ("successes", "trials", "probability", "at_most", "at_least"),
    [
        (0, 1, 0.25, 0.75, 1.0),
        (1, 1, 0.25, 1.0, 0.25),
        (0, 2, 0.5, 0.25, 1.0),
        (1, 2, 0.5, 0.75, 0.75),
        (2, 4, 0.5, 11 / 16, 11 / 16),  # 1, 4, 6, 4, 1 of 16
        (1, 10, 0.5, 11 / 1024, 1023 / 1024),
        (3, 3, 0.1, 1.0, 0.001),
        (0, 3, 0.1, 0.729, 1.0),
        (1, 3, 0.1, 0.972, 0.271),  # 0.729 + 3·0.1·0.81
    ],
)
def test_binomial_tails_equal_those_computed_by_hand(
    successes: int, trials: int, probability: float, at_most: float, at_least: float
) -> None:
    assert binomial_tails(successes, trials, probability) == pytest.approx((at_most, at_least), rel=1e-12)


@examples(100)
@given(TRIALS, PROBABILITIES)
def test_tails_of_successes_and_failures_are_symmetric(counts: tuple[int, int], probability: float) -> None:
    successes, trials = counts
    mirrored = binomial_tails(trials - successes, trials, 1 - probability)
    assert binomial_tails(successes, trials, probability) == pytest.approx(mirrored[::-1], rel=1e-9, abs=1e-12)


@examples(100)
@given(TRIALS, PROBABILITIES)
def test_the_two_tails_overlap_only_in_the_count_itself(counts: tuple[int, int], probability: float) -> None:
    successes, trials = counts
    mass = math.comb(trials, successes) * probability**successes * (1 - probability) ** (trials - successes)
    assert sum(binomial_tails(successes, trials, probability)) == pytest.approx(1 + mass, rel=1e-9)


def test_many_trials_do_not_overflow() -> None:
    at_most, at_least = binomial_tails(50_000, 100_000, 0.5)
    assert at_most == pytest.approx(at_least, rel=1e-6)
    assert at_most + at_least == pytest.approx(1 + 1 / math.sqrt(math.pi * 50_000), rel=1e-6)  # Stirling


# ---- plausible


@pytest.mark.parametrize(
    ("successes", "trials", "probability", "plausible"),
    [
        (0, 0, 0.0, True),
        (0, 0, 0.3, True),
        (0, 0, 1.0, True),
        (0, 10, 0.0, True),
        (1, 10, 0.0, False),
        (10, 10, 1.0, True),
        (9, 10, 1.0, False),
        (0, 10, 0.5, False),  # 1/1024 is below 0.005
        (1, 10, 0.5, True),  # 11/1024 is not
        (9, 10, 0.5, True),
        (10, 10, 0.5, False),
        (0, 1000, 0.001, True),
    ],
)
def test_a_count_is_plausible_in_the_central_99_percent(
    successes: int, trials: int, probability: float, plausible: bool
) -> None:
    assert is_plausible(successes, trials, probability, 0.99) is plausible


@examples(100)
@given(TRIALS.map(lambda counts: counts[1]), PROBABILITIES, st.sampled_from([0.9, 0.99, 0.999]))
def test_plausible_counts_are_an_interval_that_covers_the_confidence(n: int, p: float, confidence: float) -> None:
    plausible = [k for k in range(n + 1) if is_plausible(k, n, p, confidence)]
    assert plausible == list(range(plausible[0], plausible[-1] + 1))
    covered = math.fsum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in plausible)
    assert covered >= confidence - 1e-9
