"""The cost of a step, on the line through the timed batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.host.survey import StepTime, Survey
from tests.properties import examples

SECONDS = st.floats(1e-5, 1.0)


def timed(samples: int, seconds: float, slow: float | None = None) -> StepTime:
    return StepTime(samples=samples, seconds=seconds, alone=seconds, slow=seconds if slow is None else slow)


LINE = Survey(steps=(timed(4, 0.003, 0.006), timed(32, 0.010, 0.020)))
"""2 ms, and 0.25 ms for each sample; twice that when the host is slow."""


@pytest.mark.parametrize(("samples", "seconds"), [(4, 0.003), (8, 0.004), (20, 0.007), (32, 0.010), (40, 0.012)])
def test_a_step_between_or_beyond_two_batches_is_on_their_line(samples: int, seconds: float) -> None:
    assert LINE.step_seconds(samples) == pytest.approx(seconds)
    assert LINE.slow_step_seconds(samples) == pytest.approx(2 * seconds)


def test_a_step_of_one_sample_is_on_the_line() -> None:
    assert LINE.step_seconds(1) == pytest.approx(0.00225)


def test_with_one_timed_batch_size_all_steps_cost_the_same() -> None:
    survey = Survey(steps=(timed(1, 0.5),))
    assert {survey.step_seconds(samples) for samples in (1, 2, 100)} == {0.5}


def test_noise_does_not_make_more_samples_cheaper() -> None:
    survey = Survey(steps=(timed(4, 0.010), timed(32, 0.009)))
    assert survey.step_seconds(32) == survey.step_seconds(4) == 0.010


def test_a_steep_line_never_gives_zero_seconds() -> None:
    survey = Survey(steps=(timed(4, 0.001), timed(5, 0.101)))  # would be −0.3 s at one sample
    assert survey.step_seconds(1) == pytest.approx(0.0001)


@examples(100)
@given(SECONDS, SECONDS, st.integers(1, 200), st.integers(1, 200))
def test_a_step_costs_something_and_more_samples_never_cost_less(small: float, large: float, a: int, b: int) -> None:
    survey = Survey(steps=(timed(4, small), timed(32, large)))
    less, more = sorted((a, b))
    assert 0 < survey.step_seconds(less) <= survey.step_seconds(more)


def test_a_parameter_takes_four_bytes() -> None:
    assert Survey(parameters=6090).model_bytes == 24_360
