"""The goal of a comparison: a metric, whether more or less of it is better, and the target value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from testbed.analysis.metrics import LEVELS
from testbed.common.errors import UserError
from testbed.comparison.compared_runs import ComparedRun, ScoredVersion

DEFAULT_METRIC, OTHERWISE = "accuracy", "loss"
"""The default metric, and the one for tasks without it."""
_LESS_IS_BETTER = ("loss", "error", "mae", "mse", "perplexity")
"""Endings of metrics for which less is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    metric: str
    lower: bool
    """Whether less of it is better."""
    target: float
    because: str
    """Why this target was chosen."""

    @property
    def best(self) -> Callable[[Iterable[float]], float]:
        return min if self.lower else max

    def values(self, run: ComparedRun) -> list[float]:
        return [each.score for each in run.scored(self.metric)]

    def better(self, value: float, other: float) -> bool:
        return value < other if self.lower else value > other

    def reached(self, run: ComparedRun) -> ScoredVersion | None:
        """The first version that reached the target; None if none did."""
        return next((each for each in run.scored(self.metric) if self._enough(each.score)), None)

    def _enough(self, value: float) -> bool:
        return value <= self.target if self.lower else value >= self.target

    def reached_untrained(self, run: ComparedRun) -> bool:
        """Whether version 0, which is not trained, reached the target."""
        first = self.reached(run)
        return first is not None and first.version == 0


def choose(runs: Sequence[ComparedRun], metric: str | None, lower: bool | None, target: float | None) -> Goal:
    """The goal for these runs. Raises UserError if they have no common task or metric, or none reached the target."""
    _check_task(runs)
    if metric is None:
        metric = DEFAULT_METRIC if any(DEFAULT_METRIC in run.metrics for run in runs) else OTHERWISE
    _check_metric(runs, metric)
    lower = metric.endswith(_LESS_IS_BETTER) if lower is None else lower
    value, because = (target, "given") if target is not None else _usual(runs, metric, lower)
    goal = Goal(metric=metric, lower=lower, target=value, because=because)
    if all(goal.reached(run) is None for run in runs):
        best = goal.best(value for run in runs for value in goal.values(run))
        raise UserError(
            f"--target {value:g}: no run reached this {metric}, the best was {best:g}; choose a value that a run"
            " reached, or omit the option"
        )
    return goal


def _usual(runs: Sequence[ComparedRun], metric: str, lower: bool) -> tuple[float, str]:
    """The default target: that of the profiles if a run reached it, else one that all runs reached.

    If possible, it is better than the scores of the initial models.
    """
    goal = Goal(metric=metric, lower=lower, target=0.0, because="")
    every = [goal.best(goal.values(run)) for run in runs]
    initial = [each.score for run in runs for each in run.scored(metric) if each.version == 0]
    start = goal.best(initial) if initial else math.inf if lower else -math.inf
    if metric == DEFAULT_METRIC and not lower:
        wanted = _wanted(runs)
        if wanted is not None and start < wanted <= max(every):
            return wanted, "stop.target_accuracy of the profiles"
        levels = [level for level in LEVELS if start < level <= min(every)]
        if levels:
            return levels[-1], f"the highest of {', '.join(f'{level:g}' for level in LEVELS)} that all runs reached"
    common = (max if lower else min)(every)
    rounded = _rounded(common, lower)
    if goal.better(common, start) and not goal.better(rounded, start):
        return common, "the best that all runs reached"
    return rounded, "the best that all runs reached, rounded"


def _wanted(runs: Sequence[ComparedRun]) -> float | None:
    """The target accuracy of all profiles; None if they differ or have none."""
    first, *others = (run.setting("stop", "target_accuracy") for run in runs)
    if not isinstance(first, int | float) or isinstance(first, bool):
        return None
    return float(first) if all(other == first for other in others) else None


def _rounded(value: float, lower: bool) -> float:
    """The value with three significant figures, rounded so that it is still reached."""
    if value == 0:
        return value
    step = 10.0 ** (math.floor(math.log10(abs(value))) - 2)
    return float(f"{(math.ceil if lower else math.floor)(value / step) * step:.3g}")


def _check_task(runs: Sequence[ComparedRun]) -> None:
    first: dict[str, ComparedRun] = {}
    for run in runs:
        if (task := _task(run)) is not None:
            first.setdefault(task, run)
    if len(first) > 1:
        one, other, *_ = first
        raise UserError(
            f"{first[other].place}: its task is {other}, that of {first[one].place} is {one}: their scores mean"
            " different things; compare runs of one task"
        )


def _task(run: ComparedRun) -> str | None:
    task = (run.profile or {}).get("task")
    name = task.get("name") if isinstance(task, Mapping) else task
    return None if name is None else str(name)


def _check_metric(runs: Sequence[ComparedRun], metric: str) -> None:
    for run in runs:
        if not run.is_scored:
            raise UserError(f"{run.place}: none of its versions was scored; omit it, or run it for longer")
    without = next((run for run in runs if metric not in run.metrics), None)
    if without is not None:
        common = sorted(set.intersection(*(run.metrics for run in runs)))
        remedy = f"use --metric {common[0]}" if common else "compare runs of one task"
        named = f"; all runs have {', '.join(common)}" if common else "; no metric is common to all runs"
        raise UserError(f"{without.place}: has no {metric}{named}: {remedy}")
