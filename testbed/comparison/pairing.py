"""Paired differences: how two groups differ in runs with the same conditions (delays and faults)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from testbed.comparison import settings, sign_flip
from testbed.comparison.compared_runs import ComparedRun
from testbed.comparison.quantities import PAIRED

TRACE, SEED = "trace", "seed"
BASIS = {
    TRACE: "pairs are runs with the same seed that replay the same recorded run",
    SEED: "pairs are runs with the same seed and fleet: faults drawn by the seed are equal, delays of the host differ",
}

Conditions = tuple[object, ...]
"""Equal for runs that can be paired; the first entry says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """The mean difference of a quantity, the first group minus the second, with its test."""

    first: str
    second: str
    quantity: str
    pairs: int
    by: str
    mean: float
    p: float
    smallest_p: float


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


def differences(
    groups: Sequence[str], conditions: Sequence[Conditions], values: Sequence[Mapping[str, float | None]]
) -> Iterator[PairedDifference]:
    """Differences for every quantity and every two groups with common conditions.

    Each argument has one entry per run. Runs of one group with the same conditions are replicas: their mean counts.
    """
    for first, second in combinations(dict.fromkeys(groups), 2):
        for quantity in PAIRED:
            mine, yours = (_by_conditions(each, quantity, groups, conditions, values) for each in (first, second))
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
    group: str,
    quantity: str,
    groups: Sequence[str],
    conditions: Sequence[Conditions],
    values: Sequence[Mapping[str, float | None]],
) -> dict[Conditions, float]:
    found: dict[Conditions, list[float]] = {}
    for own, key, table in zip(groups, conditions, values, strict=True):
        value = table[quantity]
        if own == group and value is not None:
            found.setdefault(key, []).append(value)
    return {key: sum(each) / len(each) for key, each in found.items()}


def as_rows(found: Sequence[PairedDifference]) -> list[dict[str, Any]]:
    return [asdict(difference) for difference in found]
