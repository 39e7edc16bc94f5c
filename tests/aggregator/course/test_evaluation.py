"""Which versions are scored, and when."""

from __future__ import annotations

import numpy as np
import pytest

from aggregator.course.evaluation import EvaluationQueue
from testbed.wire.messages import Score, Snapshot
from tests.aggregator.strategies.by_hand import vector

MODEL = vector(1.0)


def score(version: int, accuracy: float = 0.5) -> Score:
    return Score(version=version, made=0.0, metrics={"accuracy": accuracy})


def asked(evaluation: EvaluationQueue, version: int, now: float) -> int | None:
    """The version that is sent to the evaluator now."""
    snapshot = evaluation.next(version, 0.0, MODEL, now)
    return None if snapshot is None else snapshot.version


@pytest.fixture
def evaluation() -> EvaluationQueue:
    return EvaluationQueue(every=2.0)


def test_the_initial_model_is_sent_at_once(evaluation: EvaluationQueue) -> None:
    assert not evaluation.pending
    assert asked(evaluation, 0, 0.0) == 0
    assert evaluation.pending


def test_a_snapshot_contains_the_moment_of_its_version(evaluation: EvaluationQueue) -> None:
    snapshot = evaluation.next(7, 3.25, MODEL, 4.0)
    assert isinstance(snapshot, Snapshot)
    assert (snapshot.version, snapshot.made) == (7, 3.25)
    np.testing.assert_array_equal(snapshot.model, MODEL)


def test_the_evaluator_gets_one_version_at_a_time(evaluation: EvaluationQueue) -> None:
    assert asked(evaluation, 0, 0.0) == 0
    assert asked(evaluation, 5, 10.0) is None
    evaluation.take(score(0))
    assert asked(evaluation, 6, 10.0) == 6


def test_the_evaluator_is_not_used_too_often(evaluation: EvaluationQueue) -> None:
    assert asked(evaluation, 0, 1.0) == 0
    evaluation.take(score(0))
    assert asked(evaluation, 1, 2.9) is None
    assert asked(evaluation, 1, 3.0) == 1


def test_a_version_is_scored_once(evaluation: EvaluationQueue) -> None:
    assert asked(evaluation, 0, 0.0) == 0
    evaluation.take(score(0))
    assert asked(evaluation, 0, 10.0) is None
    assert evaluation.last(0, 0.0, MODEL, 10.0) is None


def test_the_last_version_is_sent_even_shortly_after_another(evaluation: EvaluationQueue) -> None:
    assert asked(evaluation, 0, 0.0) == 0
    evaluation.take(score(0))
    last = evaluation.last(1, 0.0, MODEL, 0.1)
    assert last is not None
    assert last.version == 1
    assert evaluation.pending


def test_the_latest_score_is_known(evaluation: EvaluationQueue) -> None:
    assert (evaluation.scored, evaluation.latest) == (-1, None)
    asked(evaluation, 3, 0.0)
    evaluation.take(score(3, 0.75))
    assert (evaluation.scored, evaluation.latest, evaluation.pending) == (3, score(3, 0.75), False)


def test_a_snapshot_without_a_score_is_sent_again(evaluation: EvaluationQueue) -> None:
    assert evaluation.owed is None
    snapshot = evaluation.next(3, 1.5, MODEL, 2.0)
    assert evaluation.owed is snapshot is not None
    assert evaluation.pending
    evaluation.take(score(3))
    assert evaluation.owed is None


def test_a_score_is_accepted_once_and_only_if_it_is_awaited(evaluation: EvaluationQueue) -> None:
    assert not evaluation.take(score(3))
    asked(evaluation, 3, 0.0)
    assert not evaluation.take(score(2))
    assert evaluation.take(score(3))
    assert not evaluation.take(score(3))
    assert evaluation.scored == 3
