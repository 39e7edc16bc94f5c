"""The goal of a comparison, and runs that cannot be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed.common.errors import UserError
from testbed.comparison.goal import Goal, choose
from tests.testbed.comparison.written import PROFILE, read, write


def chosen(folder: Path, *tables: dict[str, Any], **given: Any) -> Goal:
    runs = read(*(write(folder / str(number), seed=number, **table) for number, table in enumerate(tables)))
    return choose(runs, **({"metric": "accuracy", "lower": None, "target": None} | given))


def wanting(accuracy: float) -> dict[str, Any]:
    return {"stop": {"target_accuracy": accuracy}}


HIGH, LOW = {"scores": (0.25, 0.97)}, {"scores": (0.25, 0.86)}


@pytest.mark.parametrize(
    ("tables", "target", "because"),
    [
        ([HIGH, LOW], 0.8, "the highest of 0.5, 0.6, "),
        ([HIGH, HIGH], 0.95, "the highest of 0.5, 0.6, "),
        ([HIGH | {"profile": wanting(0.9)}, LOW | {"profile": wanting(0.9)}], 0.9, "stop.target_accuracy"),
        ([HIGH | {"profile": wanting(0.9)}, LOW | {"profile": wanting(0.8)}], 0.8, "the highest of "),
        ([HIGH | {"profile": wanting(0.99)}, LOW | {"profile": wanting(0.99)}], 0.8, "the highest of "),
        ([HIGH, {"scores": (0.3, 0.41267, 0.4)}], 0.412, "the best that all runs reached, rounded"),
        ([HIGH, LOW | {"initial": 0.75}], 0.8, "the highest of "),
        ([HIGH, LOW | {"initial": 0.81}], 0.86, "the best that all runs reached, rounded"),
        ([{"scores": (0.41267,), "initial": 0.4121}], 0.41267, "the best that all runs reached"),
        ([{"scores": (0.9,), "initial": 0.6, "profile": wanting(0.55)}], 0.9, "the highest of "),
        ([{"scores": (0.1,), "initial": 0.1}], 0.1, "the best that all runs reached, rounded"),
    ],
)
def test_a_target_is_found(tmp_path: Path, tables: list[dict[str, Any]], target: float, because: str) -> None:
    goal = chosen(tmp_path, *tables)
    assert goal.target == target
    assert goal.because.startswith(because)


def test_a_target_that_some_run_reached_may_be_given(tmp_path: Path) -> None:
    goal = chosen(tmp_path, HIGH, LOW, target=0.9)
    assert (goal.target, goal.because) == (0.9, "given")
    assert chosen(tmp_path / "low", HIGH | {"initial": 0.5}, target=0.4).target == 0.4


def test_less_of_a_loss_is_better(tmp_path: Path) -> None:
    goal = chosen(tmp_path, HIGH, LOW, metric="loss")
    assert (goal.lower, goal.target) == (True, 0.14)
    assert [first.version for run in read(tmp_path / "0", tmp_path / "1") if (first := goal.reached(run))] == [2, 2]
    [run] = read(tmp_path / "0")
    assert goal.best(goal.values(run)) == 0.03


def test_less_of_any_metric_may_be_declared_better(tmp_path: Path) -> None:
    goal = chosen(tmp_path, {"metric": "perplexity", "scores": (300.0, 123.4)}, metric="perplexity", lower=True)
    assert goal.target == 124.0
    assert not chosen(tmp_path / "again", HIGH, metric="loss", lower=False).lower


@pytest.mark.parametrize("metric", ["loss", "mse", "perplexity", "test_error"])
def test_less_of_an_error_is_better(tmp_path: Path, metric: str) -> None:
    assert chosen(tmp_path, {"metric": metric, "scores": (300.0, 123.4)}, metric=metric).lower


def test_without_an_accuracy_the_loss_counts(tmp_path: Path) -> None:
    goal = chosen(tmp_path, {"metric": "loss", "scores": (3.0, 1.234)}, metric=None)
    assert (goal.metric, goal.lower, goal.target) == ("loss", True, 1.24)


def refused(folder: Path, *tables: dict[str, Any], **given: Any) -> str:
    with pytest.raises(UserError) as caught:
        chosen(folder, *tables, **given)
    return str(caught.value)


def test_a_target_that_no_run_reached_is_refused_with_the_best(tmp_path: Path) -> None:
    line = refused(tmp_path, HIGH, LOW, target=0.99)
    assert line.startswith("--target 0.99: no run reached this accuracy, the best was 0.97; choose a value that a run")


def test_runs_of_different_tasks_are_refused(tmp_path: Path) -> None:
    line = refused(tmp_path, {}, {"profile": {"task": "my_task:Blobs"}})
    assert line.startswith(f"{tmp_path}/1: its task is my_task:Blobs, that of {tmp_path}/0 is digits: ")
    assert line.endswith("compare runs of one task")


def test_a_task_with_other_parameters_is_the_same_task(tmp_path: Path) -> None:
    assert chosen(tmp_path, {}, {"profile": {"task": PROFILE["task"] | {"alpha": 9.0}}}).metric == "accuracy"


def test_a_missing_metric_is_refused_with_the_existing_ones(tmp_path: Path) -> None:
    line = refused(tmp_path, {}, {"metric": "loss"})
    assert line == f"{tmp_path}/1: has no accuracy; all runs have loss: use --metric loss"
    line = refused(tmp_path / "more", {}, {"metric": "bleu"})
    assert line.endswith("has no accuracy; no metric is common to all runs: compare runs of one task")


def test_a_run_that_was_not_scored_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, {}, {"scores": ()}).startswith(f"{tmp_path}/1: none of its versions was scored; omit it")
