"""Arithmetic on flat vectors, against plain numpy in double precision."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aggregator.strategy import vectors
from testbed.wire.messages import Vector
from tests.aggregator.strategies.by_hand import vector

every_size = pytest.mark.parametrize("size", [0, 1, 3, 70_001])


def drawn(size: int, seed: int) -> Vector:
    return np.random.default_rng(seed).normal(size=size).astype(np.float32)


def exact(numbers: Vector) -> np.ndarray:
    return numbers.astype(np.float64)


@every_size
def test_add_scaled_adds_in_place(size: int) -> None:
    target, source = drawn(size, 1), drawn(size, 2)
    expected, untouched = exact(target) + 0.3 * exact(source), source.copy()
    vectors.add_scaled(target, 0.3, source)
    np.testing.assert_allclose(target, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(source, untouched)


@every_size
def test_plus_scaled_makes_a_new_vector(size: int) -> None:
    base, source = drawn(size, 1), drawn(size, 2)
    base.flags.writeable = source.flags.writeable = False
    result = vectors.plus_scaled(base, -2.5, source)
    np.testing.assert_allclose(result, exact(base) - 2.5 * exact(source), rtol=1e-5, atol=1e-6)
    assert result.dtype == np.float32
    assert result.flags.writeable
    assert not np.shares_memory(result, base)


@every_size
def test_norm_and_distance_are_euclidean(size: int) -> None:
    a, b = drawn(size, 1), drawn(size, 2)
    assert vectors.norm(a) == pytest.approx(np.linalg.norm(exact(a)), rel=1e-5)
    assert vectors.distance(a, b) == pytest.approx(np.linalg.norm(exact(a) - exact(b)), rel=1e-5)
    assert vectors.distance(a, a) == 0.0


@every_size
def test_arithmetic_works_on_read_only_vectors(size: int) -> None:
    received = np.frombuffer(drawn(size, 1).tobytes(), np.float32) if size else drawn(0, 1)
    target = np.zeros(size, np.float32)
    vectors.add_scaled(target, 1.0, received)
    np.testing.assert_array_equal(target, received)
    assert math.isfinite(vectors.sum_of_squares(received))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("size", [1, 70_001])
def test_a_number_that_is_not_finite_is_found_at_any_place(bad: float, size: int) -> None:
    for place in {0, size // 2, size - 1}:
        numbers = drawn(size, 1)
        numbers[place] = bad
        assert not math.isfinite(vectors.sum_of_squares(numbers))


def test_infinities_do_not_cancel_out() -> None:
    assert not math.isfinite(vectors.sum_of_squares(vector(math.inf, -math.inf)))


@pytest.mark.parametrize(
    ("numbers", "finite"),
    [
        ((0.0, 0.0), True),
        ((1e-45, -1e-45), True),  # the smallest float32
        ((1e18, -1e18), True),
        ((2e19, 0.0), False),  # its square, 4e38, is above the largest float32, 3.4e38
        ((1.5e19, 1.5e19), False),  # 2 · 2.25e38
        ((3.4e38, 0.0), False),
    ],
)
def test_numbers_whose_squares_do_not_sum_to_a_float32_count_as_not_finite(
    numbers: tuple[float, ...], finite: bool
) -> None:
    assert math.isfinite(vectors.sum_of_squares(vector(*numbers))) is finite


def test_a_distance_that_is_too_large_is_infinite_without_a_warning() -> None:
    assert vectors.distance(vector(3e38), vector(-3e38)) == math.inf


@every_size
def test_mixed_is_the_weighted_mean_of_global_and_local_model(size: int) -> None:
    model, base, delta = drawn(size, 1), drawn(size, 2), drawn(size, 3)
    for each in (model, base, delta):
        each.flags.writeable = False
    result = vectors.mixed(model, 0.25, base, delta)
    expected = 0.75 * exact(model) + 0.25 * (exact(base) + exact(delta))
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    assert result.dtype == np.float32


@every_size
def test_what_is_subtracted_from_a_sum_leaves_no_rounding_error(size: int) -> None:
    total, small, large = vectors.zero_sum(drawn(size, 1)), drawn(size, 2), drawn(size, 3) * np.float32(1e6)
    vectors.add_scaled(total, 3.0, small)
    vectors.add_scaled(total, 7.0, large)
    vectors.add_scaled(total, -7.0, large)
    # in single precision, what is small would be gone by now
    np.testing.assert_allclose(vectors.scaled(total, 1 / 3), small, rtol=1e-6, atol=1e-7)
    assert vectors.scaled(total, 1.0).dtype == np.float32
    base = drawn(size, 4)
    result = vectors.plus_scaled(base, 0.5, total)
    np.testing.assert_allclose(result, exact(base) + 1.5 * exact(small), rtol=1e-5, atol=1e-6)
    assert result.dtype == np.float32


def test_results_do_not_share_memory_with_each_other() -> None:
    base, source = drawn(70_001, 1), drawn(70_001, 2)
    first = vectors.plus_scaled(base, 1.0, source)
    kept = first.copy()
    vectors.plus_scaled(base, -1.0, source)
    vectors.add_scaled(base.copy(), 5.0, source)
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((3, 0), (5, 0), 1.0),
        ((3, 0), (0, 2), 0.0),
        ((1, 1), (-2, -2), -1.0),
        ((3, 4), (4, 3), 0.96),
        ((0, 0), (1, 2), 0),
    ],
)
def test_the_cosine_is_that_of_the_angle_and_zero_for_a_zero_vector(
    a: tuple[float, float], b: tuple[float, float], expected: float
) -> None:
    assert vectors.cosine(vector(*a), vector(*b)) == pytest.approx(expected, abs=1e-6)
    assert -1.0 <= vectors.cosine(vector(*a), vector(*b)) <= 1.0


def test_the_cosine_of_infinitely_long_vectors_is_zero() -> None:
    assert vectors.cosine(vector(2e19, 2e19), vector(2e19, 2e19)) == 0.0


def test_sums_over_nine_million_numbers_are_exact_to_five_digits() -> None:
    a = np.full(9_350_000, 0.1, np.float32)
    expected = float(np.float32(0.1)) * 9_350_000**0.5
    assert abs(vectors.norm(a) / expected - 1) < 1e-5
    assert abs(vectors.cosine(a, a) - 1) < 1e-5
    assert abs(vectors.sum_of_squares(a) / expected**2 - 1) < 1e-5
    assert abs(vectors.distance(a, np.zeros_like(a)) / expected - 1) < 1e-5


@every_size
def test_add_squares_adds_in_place(size: int) -> None:
    target, source = exact(drawn(size, 1)), drawn(size, 2)
    expected = target + 0.3 * exact(source) ** 2
    vectors.add_squares(target, 0.3, source)
    np.testing.assert_allclose(target, expected, rtol=1e-12)


@every_size
def test_approach_squares_moves_towards_the_squares_by_a_share_of_them(size: int) -> None:
    source = drawn(size, 2)
    target = np.abs(exact(drawn(size, 1)))
    target[: size // 3] = exact(source)[: size // 3] ** 2  # these are equal, and stay
    squares = exact(source) ** 2
    expected = target - 0.3 * squares * np.sign(target - squares)
    vectors.approach_squares(target, 0.3, source)
    np.testing.assert_allclose(target, expected, rtol=1e-12, atol=1e-15)


@every_size
def test_plus_ratio_makes_a_new_vector(size: int) -> None:
    base, above, below = drawn(size, 1), drawn(size, 2), exact(drawn(size, 3)) ** 2
    base.flags.writeable = above.flags.writeable = below.flags.writeable = False
    result = vectors.plus_ratio(base, -2.5, above, below, 0.1)
    np.testing.assert_allclose(result, exact(base) - 2.5 * exact(above) / (np.sqrt(below) + 0.1), rtol=1e-5, atol=1e-6)
    assert result.dtype == np.float32


def test_squares_of_large_numbers_do_not_overflow() -> None:
    target = np.zeros(1)
    vectors.add_squares(target, 1.0, vector(1e30))
    assert target[0] == pytest.approx(1e60)


@every_size
@pytest.mark.parametrize("cut", [0, 1, 2])
def test_trimmed_mean_leaves_the_smallest_and_largest_values_out(size: int, cut: int) -> None:
    drawn_ones = [drawn(size, seed) for seed in range(5)]
    for each in drawn_ones:
        each.flags.writeable = False
    result, kept = vectors.trimmed_mean(drawn_ones, cut)
    ordered = np.sort([exact(each) for each in drawn_ones], axis=0)
    np.testing.assert_allclose(result, ordered[cut : 5 - cut].mean(axis=0), rtol=1e-5, atol=1e-6)
    assert (result.dtype, sum(kept)) == (np.float32, (5 - 2 * cut) * size)
