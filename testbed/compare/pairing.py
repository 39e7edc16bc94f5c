"""Paired differences: runs of two groups that met the same fate, and how the groups differ on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from testbed.compare import settings, sign_flip
from testbed.compare.compared_runs import ComparedRun
from testbed.compare.quantities import PAIRED

TRACE, SEED = "trace", "seed"
BASIS = {
    TRACE: "pairs are runs of one seed that met the delays of the same recorded run",
    SEED: "pairs are runs of one seed and fleet: what is drawn by the seed befell both, what the host did differs",
}

Fate = tuple[object, ...]
"""Of runs that can be paired, the same; its first entry says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """Of the first group minus the second."""

    first: str
    second: str
    quantity: str
    pairs: int
    by: str
    mean: float
    p: float
    smallest_p: float


def fates(runs: Sequence[ComparedRun]) -> list[Fate]:
    """What each run met: the delays of a recorded run, if it replayed one or was itself replayed by another of these
    runs; else what was drawn by its seed.
    """
    replayed = {run.recorded for run in runs}
    return [
        (TRACE, run.recorded or run.place, run.header.seed)
        if run.header.replay or run.place in replayed
        else (SEED, run.header.seed, settings.fleet(run))
        for run in runs
    ]


def differences(
    groups: Sequence[str], fates: Sequence[Fate], values: Sequence[Mapping[str, float | None]]
) -> Iterator[PairedDifference]:
    """Of every two groups that share a fate, for every quantity. The three are one entry for each run.

    Runs of one group and one fate are replicas: their mean counts as one.
    """
    for first, second in combinations(dict.fromkeys(groups), 2):
        for quantity in PAIRED:
            mine, yours = (_by_fate(each, quantity, groups, fates, values) for each in (first, second))
            common = [fate for fate in mine if fate in yours]
            if common:
                apart = [mine[fate] - yours[fate] for fate in common]
                yield PairedDifference(
                    first=first,
                    second=second,
                    quantity=quantity,
                    pairs=len(apart),
                    by=TRACE if all(fate[0] == TRACE for fate in common) else SEED,
                    mean=sum(apart) / len(apart),
                    p=sign_flip.p_value(apart),
                    smallest_p=sign_flip.smallest(len(apart)),
                )


def _by_fate(
    group: str,
    quantity: str,
    groups: Sequence[str],
    fates: Sequence[Fate],
    values: Sequence[Mapping[str, float | None]],
) -> dict[Fate, float]:
    found: dict[Fate, list[float]] = {}
    for own, fate, table in zip(groups, fates, values, strict=True):
        value = table[quantity]
        if own == group and value is not None:
            found.setdefault(fate, []).append(value)
    return {fate: sum(each) / len(each) for fate, each in found.items()}


def as_rows(found: Sequence[PairedDifference]) -> list[dict[str, Any]]:
    return [asdict(difference) for difference in found]
