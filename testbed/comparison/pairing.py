"""Paired differences: how two groups differ in runs with the same conditions (delays and faults)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import msgspec

from testbed.comparison import settings, sign_flip
from testbed.comparison.compared_runs import ComparedRun
from testbed.comparison.quantities import PAIRED, ComparisonRow

_USUAL_P = 0.05
TRACE, SEED = "trace", "seed"
BASIS = {
    TRACE: "pairs are runs with the same seed that replay the same recorded run",
    SEED: "pairs are runs with the same seed and fleet: faults drawn by the seed are equal, delays of the host differ",
}

Conditions = tuple[object, ...]
"""Equal for runs that can be paired; the first entry says why."""


class PairedDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The mean difference of a quantity, the first group minus the second, with its test: a row of paired.csv."""

    first: str
    second: str
    quantity: str
    pairs: int
    by: str
    """TRACE or SEED: see BASIS."""
    mean: float
    p: float
    smallest_p: float
    """The smallest p that this number of pairs can give."""


def conditions_of(runs: Sequence[ComparedRun]) -> list[Conditions]:
    """The conditions of each run: those of a recorded run, if it replayed one or was itself replayed by another of
    these runs; otherwise those that its seed and fleet determine.
    """
    replayed = {run.recorded for run in runs}
    return [
        (TRACE, run.recorded or run.place, run.header.seed)
        if run.header.replay or run.place in replayed
        else (SEED, run.header.seed, settings.fleet(run))
        for run in runs
    ]


def differences(rows: Sequence[ComparisonRow], conditions: Sequence[Conditions]) -> Iterator[PairedDifference]:
    """Differences for every quantity and every two groups with common conditions.

    Each argument has one entry per run. Runs of one group with the same conditions are replicas: their mean counts.
    """
    for first, second in combinations(dict.fromkeys(row.group for row in rows), 2):
        for quantity in PAIRED:
            mine, yours = (_by_conditions(each, quantity, rows, conditions) for each in (first, second))
            common = [each for each in mine if each in yours]
            if common:
                apart = [mine[each] - yours[each] for each in common]
                yield PairedDifference(
                    first=first,
                    second=second,
                    quantity=quantity,
                    pairs=len(apart),
                    by=TRACE if all(each[0] == TRACE for each in common) else SEED,
                    mean=sum(apart) / len(apart),
                    p=sign_flip.p_value(apart),
                    smallest_p=sign_flip.smallest(len(apart)),
                )


def _by_conditions(
    group: str, quantity: str, rows: Sequence[ComparisonRow], conditions: Sequence[Conditions]
) -> dict[Conditions, float]:
    found: dict[Conditions, list[float]] = {}
    for row, key in zip(rows, conditions, strict=True):
        value = row.quantity(quantity)
        if row.group == group and value is not None:
            found.setdefault(key, []).append(value)
    return {key: sum(each) / len(each) for key, each in found.items()}


def pair_notes(groups: int, found: Sequence[PairedDifference]) -> Iterator[str]:
    """Sentences for the reader about the tests between this number of groups."""
    if groups < 2:
        return
    if not found:
        yield "no pairs: no two runs of different groups have the same seed and fleet, or replay the same run"
        return
    most = max(difference.pairs for difference in found)
    if sign_flip.smallest(most) > _USUAL_P:
        yield (
            f"with {most} {'pair' if most == 1 else 'pairs'}, p cannot be below {sign_flip.smallest(most):g}, however"
            f" different two strategies are; p ≤ {_USUAL_P:g} needs {sign_flip.pairs_for(_USUAL_P)} pairs"
        )
    able = sum(difference.smallest_p <= _USUAL_P for difference in found)
    if able > 1:
        yield (
            f"{able} tests can give p ≤ {_USUAL_P:g}: if all strategies were equal, about {able * _USUAL_P:.2g} of them"
            " would, by chance"
        )
