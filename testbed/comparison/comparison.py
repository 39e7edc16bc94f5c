"""A comparison as a value: groups with means and intervals, paired differences, and notes for the reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from testbed.comparison import compare_columns, compare_tables, pairing, settings
from testbed.comparison.compare_columns import ColumnTable
from testbed.comparison.compare_tables import TextTable
from testbed.comparison.compared_runs import ComparedRun
from testbed.comparison.goal import Goal
from testbed.comparison.pairing import Conditions, PairedDifference
from testbed.comparison.quantities import (
    COSTS,
    RESULTS,
    ComparedGroup,
    ComparisonRow,
    Quantity,
    of_group,
    of_run,
    quantities,
    value_notes,
)


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison of runs. Its fields are the keys of the JSON that the command prints."""

    metric: str
    lower: bool
    """Whether less of the metric is better."""
    target: float
    target_is: str
    """Why this target was chosen."""
    quantities: tuple[Quantity, ...]
    groups: tuple[ComparedGroup, ...]
    paired: tuple[PairedDifference, ...]
    paired_by: tuple[str, ...]
    """What makes two runs a pair, in sentences."""
    runs: tuple[ComparisonRow, ...]
    notes: tuple[str, ...]

    @property
    def headline(self) -> str:
        """The number of runs and groups, and the target, in a sentence."""
        runs, groups = len(self.runs), len(self.groups)
        better = "at most" if self.lower else "at least"
        return (
            f"{runs} {'run' if runs == 1 else 'runs'} in {groups} {'group' if groups == 1 else 'groups'};"
            f" target: {self.metric} of {better} {self.target:g} ({self.target_is}); mean ± half of the 95 %"
            " interval over runs"
        )

    @property
    def tables(self) -> list[TextTable]:
        """Results, costs and, if there are any, paired differences."""
        return [self.result_table, self.cost_table, *([self.paired_table] if self.paired else [])]

    @property
    def result_table(self) -> TextTable:
        """A row for each group: its scores, and what it took to reach the target."""
        return compare_tables.results(self.groups, self.quantities)

    @property
    def cost_table(self) -> TextTable:
        """A row for each group: what its runs used until they ended."""
        return compare_tables.costs(self.groups, self.quantities)

    @property
    def paired_table(self) -> TextTable:
        """A row for each paired difference."""
        return compare_tables.pairs(self.paired, self.quantities)

    @property
    def result_columns(self) -> ColumnTable:
        """The table of results: ``runs``, ``reached``, and for each quantity its mean and ``…_half``."""
        return compare_columns.of_groups(self.groups, RESULTS)

    @property
    def cost_columns(self) -> ColumnTable:
        """The table of costs, with the same columns for its quantities."""
        return compare_columns.of_groups(self.groups, COSTS)

    @property
    def paired_columns(self) -> ColumnTable:
        """The paired differences: paired.csv."""
        return compare_columns.of_pairs(self.paired, self.quantities)

    @property
    def interval_columns(self) -> ColumnTable:
        """Each quantity of each group, with its interval: compare.csv."""
        return compare_columns.of_intervals(self.groups, self.quantities)

    @property
    def run_columns(self) -> ColumnTable:
        """Each run: runs.csv."""
        return compare_columns.of_runs(self.runs)


def compare(runs: Sequence[ComparedRun], goal: Goal) -> Comparison:
    """The whole comparison of these runs."""
    labels, differing = settings.labels(runs)
    rows = [of_run(run, label, goal) for run, label in zip(runs, labels, strict=True)]
    strategies = {label: run.header.strategy for run, label in zip(runs, labels, strict=True)}
    conditions = pairing.conditions_of(runs)
    found = tuple(pairing.differences(rows, conditions))
    return Comparison(
        metric=goal.metric,
        lower=goal.lower,
        target=goal.target,
        target_is=goal.because,
        quantities=quantities(goal),
        groups=tuple(
            of_group(strategy, [row for row in rows if row.group == label]) for label, strategy in strategies.items()
        ),
        paired=found,
        paired_by=tuple(pairing.BASIS[by] for by in pairing.BASIS if any(row.by == by for row in found)),
        runs=tuple(rows),
        notes=(
            *(note for run in runs for note in run.notes),
            *differing,
            *_notes(runs, rows, conditions),
            *value_notes(runs, rows, goal),
            *pairing.pair_notes(len(strategies), found),
        ),
    )


def _notes(
    runs: Sequence[ComparedRun], rows: Sequence[ComparisonRow], conditions: Sequence[Conditions]
) -> Iterator[str]:
    """Sentences for the reader about the runs."""
    bare = [str(run.place) for run in runs if run.profile is None]
    if bare:
        yield f"no profile.toml, so that only the strategy's parameters are known: {', '.join(bare)}"
    failed = sum(run.fidelity == "FAIL" for run in runs)
    if failed:
        yield (
            f"the certificate of {failed} of {len(runs)} runs is FAIL (see runs.csv): the host was too slow, and their"
            " seconds are not reliable"
        )
    for (group, own), count in Counter(zip((row.group for row in rows), conditions, strict=True)).items():
        if count > 1:
            seed = next(row.seed for row, each in zip(rows, conditions, strict=True) if each == own)
            yield f"{group}: {count} runs have seed {seed}; they are not independent, so the interval is too narrow"
