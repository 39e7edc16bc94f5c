"""Student's intervals, checked by integration of the density."""

from __future__ import annotations

import math

import pytest

from testbed.comparison.interval import mean, student


def below(t: float, freedom: int) -> float:
    """Student's distribution, integrated by Simpson's rule."""
    pieces = 20_000
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)

    def density(x: float) -> float:
        return scale * (1 + x * x / freedom) ** (-(freedom + 1) / 2)

    step = t / pieces
    inner = math.fsum((4 if i % 2 else 2) * density(i * step) for i in range(1, pieces))
    return 0.5 + (density(0) + inner + density(t)) * step / 3


@pytest.mark.parametrize("freedom", [*range(1, 31), 31, 40, 100, 1000])
def test_the_quantiles_leave_five_percent_outside(freedom: int) -> None:
    assert below(student(freedom), freedom) == pytest.approx(0.975, abs=3e-5)


def test_quantiles_go_down_to_that_of_the_normal_distribution() -> None:
    values = [student(freedom) for freedom in range(1, 200)]
    assert values == sorted(values, reverse=True)
    assert student(10**9) == pytest.approx(1.959964)


def test_a_mean_by_hand() -> None:
    found = mean([1.0, 2.0, 3.0])
    assert found is not None
    assert (found.count, found.mean) == (3, 2.0)
    assert found.half == pytest.approx(4.303 / math.sqrt(3))  # the standard deviation is 1
    assert found.low == pytest.approx(2 - 4.303 / math.sqrt(3))
    assert found.high == pytest.approx(2 + 4.303 / math.sqrt(3))


def test_one_run_has_no_interval_and_no_run_no_mean() -> None:
    found = mean([7.0])
    assert found is not None
    assert (found.mean, found.half, found.low, found.high) == (7.0, None, None, None)
    assert mean([]) is None


def test_runs_that_agree_have_an_interval_of_no_width() -> None:
    found = mean([0.1] * 5)
    assert found is not None
    assert found.half == pytest.approx(0.0, abs=1e-15)
