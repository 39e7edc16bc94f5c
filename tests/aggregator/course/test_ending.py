"""Whether the run is over, and why: time, versions, accuracy, early stopping and requests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest

from aggregator.course.ending import Ending
from testbed.profile.schema import StopWhen


def scores_taken(when: StopWhen, scores: Sequence[float | Mapping[str, float]]) -> tuple[int, str | None]:
    """Return after how many scores the run ends, and why; numbers are losses."""
    ending = Ending(when)
    for number, score in enumerate(scores, 1):
        ending.check_score(score if isinstance(score, Mapping) else {"loss": score})
        if ending.reason is not None:
            return number, ending.reason
    return len(scores), None


# ---- time, versions, accuracy


def test_a_run_ends_at_its_time_and_not_before() -> None:
    ending = Ending(StopWhen(seconds=2.5))
    assert ending.at == 2.5
    ending.check_time(2.4999)
    assert ending.reason is None
    ending.check_time(2.5)
    assert ending.reason == "2.5 seconds are over"


def test_a_run_without_a_time_never_ends_by_it() -> None:
    ending = Ending(StopWhen(versions=3))
    assert ending.at == math.inf
    ending.check_time(1e12)
    assert ending.reason is None


@pytest.mark.parametrize(("version", "ends"), [(2, False), (3, True), (4, True)])
def test_a_run_ends_with_its_last_version(version: int, ends: bool) -> None:
    ending = Ending(StopWhen(versions=3))
    ending.check_version(version)
    assert ending.reason == ("version 3 is reached" if ends else None)


@pytest.mark.parametrize(
    ("metrics", "ends"),
    [
        ({"accuracy": 0.89}, False),
        ({"accuracy": 0.9}, True),
        ({"accuracy": 1.0}, True),
        ({"loss": 0.1}, False),
        ({}, False),
    ],
)
def test_a_run_ends_with_its_accuracy(metrics: dict[str, float], ends: bool) -> None:
    ending = Ending(StopWhen(target_accuracy=0.9))
    ending.check_score(metrics)
    assert ending.reason == ("accuracy 0.9 is reached" if ends else None)


def test_a_condition_that_is_not_in_the_profile_ends_nothing() -> None:
    ending = Ending(StopWhen(seconds=100.0))
    ending.check_version(10**9)
    for _ in range(1000):
        ending.check_score({"accuracy": 1.0, "loss": 5.0})
    assert (ending.reason, ending.over) == (None, False)


# ---- early stopping


@pytest.mark.parametrize(
    ("losses", "ends"),
    [
        ([5, 4, 3, 2, 1], None),  # it always falls
        ([5, 6, 7, 8], 4),  # three after the lowest
        ([5, 6, 7, 4, 8, 9, 10], 7),  # a new lowest resets the count
        ([5, 6, 5, 7], 4),  # equal to the lowest is no improvement
        ([5, 9, 8, 7, 6], 4),  # lower than the one before is not enough
        ([5, 6, 7, 4.999, 6, 7], None),
    ],
)
def test_a_run_ends_when_the_loss_has_had_no_new_lowest_for_as_many_scores_as_the_patience(
    losses: list[float], ends: int | None
) -> None:
    reason = None if ends is None else "the loss has not fallen for 3 scores"
    assert scores_taken(StopWhen(patience=3), losses) == (ends or len(losses), reason)


def test_a_patience_of_one_ends_with_the_first_score_that_is_not_better() -> None:
    assert scores_taken(StopWhen(patience=1), [3, 2, 1, 1.5]) == (
        4,
        "the loss has not fallen for 1 scores",
    )


@pytest.mark.parametrize(
    ("losses", "ends"),
    [
        ([2.0, 1.75, 1.5], 3),  # a quarter at a time; by just the half is not enough
        ([2.0, 1.75, 1.25], None),  # in two steps, three quarters below the lowest that counts
        ([2.0, 1.0, 0.75, 0.25], None),
        ([2.0, 1.4375, 1.4, 1.35], 4),
    ],
)
def test_a_loss_must_be_lower_by_more_than_the_improvement(losses: list[float], ends: int | None) -> None:
    assert scores_taken(StopWhen(patience=2, improvement=0.5), losses)[0] == (ends or len(losses))
    assert (scores_taken(StopWhen(patience=2, improvement=0.5), losses)[1] is None) == (ends is None)
    assert scores_taken(StopWhen(patience=2), losses)[1] is None  # without it, they all fall


@pytest.mark.parametrize("score", [{"loss": math.nan}, {"accuracy": 0.5}, {}])
def test_a_score_without_a_proper_loss_is_no_new_lowest(score: dict[str, float]) -> None:
    when = StopWhen(patience=3)
    assert scores_taken(when, [score, score, score, score]) == (3, "the loss has not fallen for 3 scores")
    assert scores_taken(when, [5.0, score, 6.0, score]) == (4, "the loss has not fallen for 3 scores")
    assert scores_taken(when, [5.0, score, score, 4.0, score, score])[1] is None
    assert scores_taken(when, [score, score, 5.0, 4.0])[1] is None  # a number at last


def test_the_very_same_loss_again_is_no_new_lowest() -> None:
    assert scores_taken(StopWhen(patience=2), [5.0, 5.0, 5.0, 5.0]) == (3, "the loss has not fallen for 2 scores")


def test_a_run_without_patience_is_not_stopped_early() -> None:
    assert scores_taken(StopWhen(seconds=1.0, improvement=0.5), [1.0, 2.0] * 1000)[1] is None


def test_the_accuracy_precedes_the_patience() -> None:
    when = StopWhen(target_accuracy=0.5, patience=1)
    assert scores_taken(when, [{"loss": 1.0}, {"loss": 2.0, "accuracy": 0.5}]) == (2, "accuracy 0.5 is reached")


# ---- the first reason counts


def test_the_first_reason_counts() -> None:
    ending = Ending(StopWhen(seconds=1.0, versions=1, patience=1))
    ending.request("a strategy failed")
    ending.check_time(2.0)
    ending.check_version(5)
    ending.check_score({})
    ending.interrupt("Ctrl-C")
    assert ending.reason == "a strategy failed"


# ---- interrupts, and the time after the end


def test_an_interrupt_ends_the_run_at_once() -> None:
    ending = Ending(StopWhen(seconds=1.0))
    ending.request("version 3 is reached")
    assert (ending.over, ending.interrupted) == (True, False)
    ending = Ending(StopWhen(seconds=1.0))
    ending.interrupt("Ctrl-C")
    assert (ending.reason, ending.over, ending.interrupted) == ("Ctrl-C", True, True)


def test_a_run_is_not_over_while_the_final_model_is_broadcast() -> None:
    ending = Ending(StopWhen(seconds=1.0))
    assert ending.over is False
    ending.check_time(1.0)
    assert ending.over is True
    ending.broadcasting = True
    assert (ending.over, ending.reason) == (False, "1 seconds are over")
    ending.interrupt("Ctrl-C")  # ends the waiting, but the reason stays
    assert (ending.interrupted, ending.reason) == (True, "1 seconds are over")
    ending.broadcasting = False
    assert ending.over is True
