from __future__ import annotations

import pytest

from tests.benchmarks.records.figure import Aim, Figure, Sign, at_least, at_most, equal, median, show


@pytest.mark.parametrize(
    ("aim", "better", "worse"),
    [(at_most(3.0), 2.9, 3.1), (at_least(0.9), 0.91, 0.89), (equal(0.0), 0.0, 1.0), (equal("PASS"), "PASS", "WARN")],
)
def test_an_aim_is_reached_only_in_its_direction(aim: Aim, better: float | str, worse: float | str) -> None:
    assert aim.reached(better)
    assert not aim.reached(worse)


@pytest.mark.parametrize("aim", [at_most(3.0), at_least(0.9)])
def test_the_bound_itself_reaches_the_aim(aim: Aim) -> None:
    assert aim.reached(aim.bound)


def test_words_have_no_order() -> None:
    with pytest.raises(TypeError, match="only numbers"):
        at_most(3.0).reached("PASS")


@pytest.mark.parametrize("aim", [at_most(3.0), at_least(0.15), equal("PASS"), equal(0.0), at_most(12000.0)])
def test_an_aim_is_read_as_it_was_written(aim: Aim) -> None:
    assert Aim.read(str(aim)) == aim


def test_a_figure_without_value_neither_reaches_nor_misses_its_aim() -> None:
    assert Figure(row="1000 devices", value=None, aim=at_most(10.0), note="refused").reached is None


def test_the_median_of_repetitions_is_judged() -> None:
    figure = median("10 devices", "ours", [1.0, 5.0, 2.0], unit="s", aim=Aim(Sign.AT_MOST, 2.0))
    assert figure.value == 2.0
    assert figure.values == (1.0, 5.0, 2.0)
    assert figure.reached


@pytest.mark.parametrize(
    ("value", "text"), [(0.12345, "0.123 s"), (176.4, "176 s"), (12345.6, "12346 s"), (None, "—"), ("PASS", "PASS")]
)
def test_values_are_shown_with_three_digits(value: float | str | None, text: str) -> None:
    assert show(value, "s") == text
