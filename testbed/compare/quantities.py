"""The figures of one run that are averaged over seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from testbed.compare.compared_runs import ComparedRun
from testbed.compare.goal import Goal

JOULES = "J (proxy)"
"""Nobody has measured them: ``testbed.analysis.energy`` has the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    key: str
    title: str
    unit: str = ""
    """Of the plain value, as files for machines have it."""
    scale: float = 1.0
    """What it is divided by when it is shown."""


def quantities(goal: Goal) -> tuple[Quantity, ...]:
    """In the order of the tables."""
    return (
        Quantity(key="final", title=f"final {goal.metric}"),
        Quantity(key="best", title=f"best {goal.metric}"),
        Quantity(key="seconds_to_target", title=f"s to {goal.target:g}", unit="s"),
        Quantity(key="joules_to_target", title=f"{JOULES} to {goal.target:g}", unit=JOULES),
        Quantity(key="bytes_to_target", title=f"MB to {goal.target:g}", unit="B", scale=1e6),
        Quantity(key="energy_j", title=f"{JOULES} in all", unit=JOULES),
        Quantity(key="wasted_j", title=f"{JOULES} wasted", unit=JOULES),
        Quantity(key="versions", title="versions"),
        Quantity(key="updates_per_second", title="updates / s"),
        Quantity(key="mean_staleness", title="staleness"),
    )


OF_RESULT = ("final", "best", "seconds_to_target", "joules_to_target", "bytes_to_target")
OF_EFFORT = ("energy_j", "wasted_j", "versions", "updates_per_second", "mean_staleness")
PAIRED = ("seconds_to_target", "joules_to_target", "final")
"""Those of which paired differences are tested."""


def of_run(run: ComparedRun, goal: Goal) -> dict[str, float | None]:
    """None is what the run cannot tell: it did not reach the target, or a device has no power model."""
    values, row = goal.values(run), goal.reached(run)
    at_target: Mapping[str, float | None] = row if row is not None else {}
    return {
        "final": values[-1],
        "best": goal.best(values),
        "seconds_to_target": at_target.get("time_s"),
        "joules_to_target": at_target.get("joules"),
        "bytes_to_target": at_target.get("bytes"),
        **{key: run.summary.get(key) for key in OF_EFFORT},
    }
