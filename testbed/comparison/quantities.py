"""The figures of one run that are averaged over seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from testbed.comparison.compared_runs import ComparedRun
from testbed.comparison.goal import Goal

JOULES = "J (proxy)"
"""They are modelled, not measured: see ``testbed.analysis.energy``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    key: str
    title: str
    unit: str = ""
    """The unit of the plain value in CSV and JSON files."""
    scale: float = 1.0
    """The divisor for tables."""


def quantities(goal: Goal) -> tuple[Quantity, ...]:
    """All quantities, in the order of the tables."""
    return (
        Quantity(key="final", title=f"final {goal.metric}"),
        Quantity(key="best", title=f"best {goal.metric}"),
        Quantity(key="seconds_to_target", title=f"s to {goal.target:g}", unit="s"),
        Quantity(key="joules_to_target", title=f"{JOULES} to {goal.target:g}", unit=JOULES),
        Quantity(key="bytes_to_target", title=f"MB to {goal.target:g}", unit="B", scale=1e6),
        Quantity(key="energy_j", title=f"{JOULES} in total", unit=JOULES),
        Quantity(key="wasted_j", title=f"{JOULES} wasted", unit=JOULES),
        Quantity(key="versions", title="versions"),
        Quantity(key="updates_per_second", title="updates / s"),
        Quantity(key="mean_staleness", title="staleness"),
    )


RESULTS = ("final", "best", "seconds_to_target", "joules_to_target", "bytes_to_target")
COSTS = ("energy_j", "wasted_j", "versions", "updates_per_second", "mean_staleness")
PAIRED = ("seconds_to_target", "joules_to_target", "final")
"""Quantities whose paired differences are tested."""


def of_run(run: ComparedRun, goal: Goal) -> dict[str, float | None]:
    """Quantity → value; None if the run did not reach the target or a device has no power model."""
    values, row = goal.values(run), goal.reached(run)
    at_target: Mapping[str, float | None] = row if row is not None else {}
    return {
        "final": values[-1],
        "best": goal.best(values),
        "seconds_to_target": at_target.get("time_s"),
        "joules_to_target": at_target.get("joules"),
        "bytes_to_target": at_target.get("bytes"),
        **{key: run.summary.get(key) for key in COSTS},
    }
