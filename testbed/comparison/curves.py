"""The metric over seconds, joules and bytes: mean, lowest and highest value of the runs of a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from testbed.comparison.compared_runs import ComparedRun, ScoredVersion
from testbed.comparison.quantities import JOULES

_POINTS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    name: str
    title: str
    place: Callable[[ScoredVersion], float | None]
    """Returns where a version is on this axis; None if that is unknown."""
    scale: float = 1.0


AXES = (
    Axis(name="seconds", title="emulated seconds", place=lambda scored: scored.time_s),
    Axis(name="joules", title=f"{JOULES} of the whole fleet", place=lambda scored: scored.joules),
    Axis(name="bytes", title="megabytes transferred", place=lambda scored: scored.bytes, scale=1e6),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricCurve:
    """The curve of one group."""

    label: str
    runs: int
    x: Sequence[float]
    mean: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


def curves(runs: Sequence[ComparedRun], groups: Sequence[str], axis: Axis, metric: str) -> list[MetricCurve]:
    """One curve for each group with values on this axis.

    A curve ends where the first run of its group ends: later, it would be the mean of fewer runs and would jump.
    """
    found = []
    for label in dict.fromkeys(groups):
        lines = [_line(run, axis, metric) for run, group in zip(runs, groups, strict=True) if group == label]
        known = [line for line in lines if line is not None]
        if not known or len(known) < len(lines):
            continue
        start, end = max(x[0] for x, _ in known), min(x[-1] for x, _ in known)
        if start > end:  # one run ended before another was scored for the first time
            continue
        grid = np.linspace(start, end, _POINTS)
        values = np.array([np.interp(grid, x, y) for x, y in known])
        found.append(
            MetricCurve(
                label=label,
                runs=len(known),
                x=(grid / axis.scale).tolist(),
                mean=values.mean(axis=0).tolist(),
                low=values.min(axis=0).tolist(),
                high=values.max(axis=0).tolist(),
            )
        )
    return found


def _line(run: ComparedRun, axis: Axis, metric: str) -> tuple[list[float], list[float]] | None:
    """The scores of a run; None if it has no values on this axis."""
    scored = run.scored(metric)
    known = [place for each in scored if (place := axis.place(each)) is not None]
    if not known or len(known) < len(scored):
        return None
    return known, [each.score for each in scored]
