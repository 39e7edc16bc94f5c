"""ASAFL: what is run, and how it is read. Chen et al. 2024, section V: Table IV, Figs. 2, 4 and 6.

Nothing is replayed: a rate is granted when a round begins, by the rule, and is no recorded delay. What all rules meet
alike is what hangs on the seed alone: the places of the devices, the fading of each round, the data and the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from types import MappingProxyType
from typing import Any

from testbed.papers.framework.job import PaperRun
from testbed.papers.framework.paper import Chosen
from testbed.papers.framework.result import Result, Results
from testbed.papers.framework.search import Search

SEEDS = (1, 2, 3)
_SEARCHED = (101,)
DEVICES, K = 10, 2
"""The paper has 10 of 50."""
ROUNDS, BUDGET = 180, 27.0
"""T, and T_max in seconds: what the profile has. Where K is fixed, a run lasts as long."""
RATES = (0.03, 0.08, 0.2, 0.5)
MUS = (0.003, 0.01, 0.03)
MORE = 10
"""Times μ: the paper's 100 beside its 10."""
SLACK = 1.05
"""Time used ÷ T_max that still counts as kept: the last round may be one of all devices."""
TARGET = 0.8
"""Accuracy; the paper's are 0.88 and 0.9."""
ONE, TWO = "one-label", "two-labels"
_LABELS = {ONE: 1, TWO: 2}
"""Stand for Dirichlet's α = 0.01 and 0.1."""
CALIBRATED, SAFL, MU = "calibrated", "SAFL", "Lyapunov"
"""Names of the searches."""

_PLAIN = MappingProxyType({"strategy.calibrated": False})
BASELINES: Mapping[str, str] = MappingProxyType(
    {
        "safl": "SAFL",
        "safl-sc-3": "SAFL-SC, τ_0 = 3",
        "safl-sc-7": "SAFL-SC, τ_0 = 7",
        "synchronous": "synchronous",
        "asynchronous": "asynchronous",
    }
)
_FIXED: Mapping[str, Mapping[str, Any]] = {
    "calibrated": {},
    "safl": _PLAIN,
    "safl-sc-3": {**_PLAIN, "strategy.tau_0": 3},
    "safl-sc-7": {**_PLAIN, "strategy.tau_0": 7},
    "synchronous": {**_PLAIN, "strategy.degree": DEVICES},
    "asynchronous": {**_PLAIN, "strategy.degree": 1},
}
_OF_TWO_LABELS = ("calibrated", "safl", "safl-sc-7")
CONTROLS: Mapping[str, str] = MappingProxyType(
    {
        "ascending": "ascending",
        "descending": "descending",
        "lyapunov": "Lyapunov",
        "lyapunov-more": f"Lyapunov, {MORE}-fold μ",
        "myopic": "Myopic",
        "greedy": "greedy",
        "eba": "Lyapunov, equal shares",
    }
)
Scores = Mapping[int, float]
"""By seed."""


def named(where: str, what: str, seed: int) -> str:
    return f"{where}-{what}-seed{seed}"


def searches() -> list[Search]:
    """The same rates for both; and of μ, what spends the time that there is, whatever it is good for."""
    return [_rate_search(CALIBRATED, "calibrated"), _rate_search(SAFL, "safl"), _mu_search()]


def _rate_search(name: str, what: str) -> Search:
    return Search(
        name=name,
        key="training.lr",
        values=RATES,
        measure="mean accuracy over the whole run, one label each",
        jobs=lambda lr: [_fixed_job(f"search-{lr:g}", ONE, what, seed, lr) for seed in _SEARCHED],
        score=lambda found: fmean(fmean(result.curve()[1]) for result in found),
    )


def _mu_search() -> Search:
    return Search(
        name=MU,
        key="strategy.mu",
        values=MUS,
        measure=f"time used ÷ T_max: the most that is not above {SLACK:g}, else the least (below 0, then)",
        jobs=lambda mu: [_controlled_job(f"search-{mu:g}", "lyapunov", seed, RATES[1], mu) for seed in _SEARCHED],
        score=lambda found: within_budget(fmean(map(usage, found))),
    )


def within_budget(used: float) -> float:
    """What the search for μ goes by: the paper takes one that spends the time, and no more."""
    return used if used <= SLACK else -used


def jobs(chosen: Chosen) -> list[PaperRun]:
    """One rate for all, as in the paper; and SAFL at its own, where that differs."""
    found = []
    rate, own = chosen[CALIBRATED], chosen[SAFL]
    for seed in SEEDS:
        for where, whats in ((ONE, tuple(_FIXED)), (TWO, _OF_TWO_LABELS)):
            found += [_fixed_job(where, where, what, seed, rate) for what in whats]
        if own != rate:
            found.append(_fixed_job(f"{ONE}-own-rate", ONE, "safl", seed, own))
        found += [_controlled_job("control", control, seed, rate, chosen[MU]) for control in CONTROLS]
    return found


def _fixed_job(place: str, labels: str, what: str, seed: int, lr: float) -> PaperRun:
    settings = {"training.lr": lr, "task.split.per_device": _LABELS[labels], **_FIXED[what]}
    return PaperRun(name=named(place, what, seed), profile="asafl/small.toml", seed=seed, settings=settings)


def _controlled_job(place: str, control: str, seed: int, lr: float, mu: float) -> PaperRun:
    """T rounds, however long they take; but greedy may take two fifths more than there is, no more."""
    settings: dict[str, Any] = {
        "training.lr": lr,
        "strategy.control": control,
        "stop.versions": ROUNDS,
        "stop.seconds": 1.4 * BUDGET,
    }
    if control in ("lyapunov", "lyapunov-more", "eba"):
        settings |= {"strategy.control": "lyapunov", "strategy.mu": mu * MORE if control == "lyapunov-more" else mu}
    if control == "eba":
        settings["strategy.allocation"] = "equal"
    if control in ("ascending", "descending"):
        settings["strategy.high"] = 2 * K
    return PaperRun(name=named(place, control, seed), profile="asafl/small.toml", seed=seed, settings=settings)


def level(result: Result, end: float | None = None) -> float:
    """Mean accuracy over the last fifth of the seconds, or of those up to ``end``: versions differ by many points where
    devices have one label. If no version was made there, that of the model that they were spent with.
    """
    last = lasted(result) if end is None else end
    scored = [score for at, score in zip(*result.curve(), strict=True) if 0.8 * last <= at <= last]
    return fmean(scored) if scored else result.at(last)


def lasted(result: Result) -> float:
    """Seconds of a run. Its last version, and score, may be much older: in a deep fade a round does not end."""
    return float(result.summary["seconds"])


def usage(result: Result) -> float:
    """Unified time usage at the end."""
    return float(result.rows("versions.csv")[-1]["time_usage"])


def longest_round(result: Result) -> float:
    """Seconds; the one that was still under way when the run ended counts, too."""
    rows = result.rows("versions.csv")
    under_way = lasted(result) - float(rows[-1]["time_s"])
    return max(under_way, *(float(row["latency_s"]) for row in rows))


def by_part(result: Result, column: str, parts: int = 4) -> list[float]:
    """The mean of a column of versions.csv over equal parts of the rounds."""
    values = [float(row[column]) for row in result.rows("versions.csv")]
    cuts = [len(values) * i // parts for i in range(parts + 1)]
    return [fmean(values[first:last]) for first, last in pairwise(cuts) if first < last]


class AsaflResults:
    """Results by their place in the tables."""

    def __init__(self, results: Results) -> None:
        self._results = results

    def runs(self, where: str, what: str) -> dict[int, Result]:
        names = {seed: named(where, what, seed) for seed in SEEDS}
        return {seed: self._results[name] for seed, name in names.items() if name in self._results}

    def own(self) -> dict[int, Result]:
        """SAFL at its own rate, one label each; where that is the common one, there is no other run."""
        return self.runs(f"{ONE}-own-rate", "safl") or self.runs(ONE, "safl")

    def control(self, what: str) -> dict[int, Result]:
        """Of the fixed degree, the run that is compared with SAFL, too."""
        return self.runs(ONE, "calibrated") if what == "fixed" else self.runs("control", what)


def levels(runs: Mapping[int, Result]) -> Scores:
    return {seed: level(result) for seed, result in runs.items()}


def levels_together(groups: Mapping[str, Mapping[int, Result]]) -> dict[str, Scores]:
    """Of runs that do not last equally long: up to the moment when the first of them is over, seed by seed."""
    seeds = set[int].intersection(*(set(runs) for runs in groups.values()))
    last = {seed: min(ends(runs)[seed] for runs in groups.values()) for seed in sorted(seeds)}
    return {name: {seed: level(runs[seed], end) for seed, end in last.items()} for name, runs in groups.items()}


def times(runs: Mapping[int, Result]) -> dict[int, float | None]:
    """Seconds to the target; None where it was not reached."""
    return {seed: result.reached(TARGET) for seed, result in runs.items()}


def ends(runs: Mapping[int, Result]) -> Scores:
    """When each run was over."""
    return {seed: lasted(result) for seed, result in runs.items()}


def ratios(fast: Mapping[int, Result], slow: Mapping[int, Result]) -> list[float]:
    """How many times as long the second takes to the target, by seed. Who did not reach it has taken its whole run,
    which makes the ratio smaller than it is, or larger; where neither did, there is none.
    """
    first, second, first_end, second_end = times(fast), times(slow), ends(fast), ends(slow)
    found = []
    for seed in sorted(fast.keys() & slow.keys()):
        one, other = first[seed], second[seed]
        if one is not None or other is not None:
            found.append((other or second_end[seed]) / (one or first_end[seed]))
    return found


def difference(first: Scores, second: Scores) -> list[float]:
    return [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]


def told(seconds: Sequence[float | None]) -> str:
    """Seconds to the target in words."""
    reached = [value for value in seconds if value is not None]
    mean = f"{fmean(reached):.1f} s ({min(reached):.1f} to {max(reached):.1f})" if reached else "never"
    missed = len(seconds) - len(reached)
    return f"{mean}, not with {missed} of {len(seconds)} seeds" if reached and missed else mean
