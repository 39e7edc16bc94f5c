"""The figures of one run, and their means over the runs of a group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from testbed.analysis import energy
from testbed.comparison import interval
from testbed.comparison.compared_runs import ComparedRun
from testbed.comparison.goal import Goal
from testbed.comparison.interval import Interval

JOULES = "J (proxy)"
"""They are modelled, not measured: see ``testbed.analysis.energy``."""
RESULTS = ("final", "best", "seconds_to_target", "joules_to_target", "bytes_to_target")
COSTS = ("energy_j", "wasted_j", "versions", "updates_per_second", "mean_staleness")
PAIRED = ("seconds_to_target", "joules_to_target", "final")
"""Quantities whose paired differences are tested."""


class Quantity(msgspec.Struct, frozen=True, kw_only=True):
    """A figure that every run has, with its name for readers."""

    key: str
    title: str
    unit: str = ""
    """The unit of the plain value in CSV and JSON files."""
    scale: float = 1.0
    """The divisor for tables."""


class ComparisonRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run in a comparison: a row of runs.csv, with a field for each quantity.

    A quantity is None if the run did not reach the target, a device has no power model, or nothing was applied.
    """

    run: str
    """Its folder, or its trace file."""
    group: str
    seed: int
    fidelity: str | None
    """The verdict of its certificate, if it has one."""
    final: float
    best: float
    seconds_to_target: float | None
    joules_to_target: float | None
    bytes_to_target: float | None
    energy_j: float | None
    wasted_j: float | None
    versions: float | None
    updates_per_second: float | None
    mean_staleness: float | None

    def quantity(self, key: str) -> float | None:
        """Return the value of the quantity with this key."""
        value: float | None = getattr(self, key)
        return value


class ComparedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The runs with one label, and the mean of each quantity over them."""

    label: str
    strategy: str
    runs: int
    seeds: tuple[int, ...]
    reached: int
    """How many runs reached the target."""
    values: dict[str, Interval | None]
    """Key of a quantity → its mean over the runs that have it; None if none has."""


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


def of_run(run: ComparedRun, group: str, goal: Goal) -> ComparisonRow:
    """The row of a run, which belongs to ``group``."""
    values, first = goal.values(run), goal.reached(run)
    return ComparisonRow(
        run=str(run.place),
        group=group,
        seed=run.header.seed,
        fidelity=run.fidelity,
        final=values[-1],
        best=goal.best(values),
        seconds_to_target=None if first is None else first.time_s,
        joules_to_target=None if first is None else first.joules,
        bytes_to_target=None if first is None else first.bytes,
        energy_j=run.cost("energy_j"),
        wasted_j=run.cost("wasted_j"),
        versions=run.cost("versions"),
        updates_per_second=run.cost("updates_per_second"),
        mean_staleness=run.cost("mean_staleness"),
    )


def of_group(strategy: str, rows: Sequence[ComparisonRow]) -> ComparedGroup:
    """The means over the runs of one group."""
    return ComparedGroup(
        label=rows[0].group,
        strategy=strategy,
        runs=len(rows),
        seeds=tuple(sorted(row.seed for row in rows)),
        reached=sum(row.seconds_to_target is not None for row in rows),
        values={
            key: interval.mean([value for row in rows if (value := row.quantity(key)) is not None])
            for key in (*RESULTS, *COSTS)
        },
    )


def value_notes(runs: Sequence[ComparedRun], rows: Sequence[ComparisonRow], goal: Goal) -> Iterator[str]:
    """Sentences for the reader about missing and modelled values."""
    if all(row.energy_j is None for row in rows):
        yield "no joules: no run has a power model for every device (power in the device's profile)"
    else:
        yield f"joules are not measured; their model: {energy.MODEL}"
    untrained = sum(goal.reached_untrained(run) for run in runs)
    if untrained:
        yield (
            f"the initial model of {untrained} of {len(runs)} runs already has {goal.metric} {goal.target:g}, so that"
            " reaching it means nothing; name another with --target"
        )
    reached = sum(row.seconds_to_target is not None for row in rows)
    if reached < len(rows):
        yield (
            f"{reached} of {len(rows)} runs reached {goal.metric} {goal.target:g}; the means of seconds, joules and"
            " bytes to it are over these runs only"
        )
