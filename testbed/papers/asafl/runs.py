"""ASAFL: its runs, and how their results are read. Chen et al. 2024, section V: Table IV, Figs. 2, 4 and 6.

Nothing is replayed: the strategy grants rates when a round begins, so that they are not recorded delays. What depends
only on the seed is the same for all: the positions of the devices, the fading of each round, the data and the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from types import MappingProxyType

from testbed.papers.framework.paper import Chosen
from testbed.papers.framework.paper_run import PaperRun, Settings, SettingValue
from testbed.papers.framework.result import Result, Results
from testbed.papers.framework.search import Search

SEEDS = (1, 2, 3)
_SEARCHED = (101,)
DEVICES, K = 10, 2
"""The paper has 10 of 50."""
ROUNDS, BUDGET = 180, 27.0
"""T, and T_max in seconds, as in the profile. Runs with a fixed K last T_max."""
RATES = (0.03, 0.08, 0.2, 0.5)
MUS = (0.003, 0.01, 0.03)
MORE = 10
"""Multiple of μ: the paper has 100 beside 10."""
SLACK = 1.05
"""Largest time used ÷ T_max that still keeps the budget: the last round may have all devices."""
TARGET = 0.8
"""Accuracy; the paper's are 0.88 and 0.9."""
ONE, TWO = "one-label", "two-labels"
_LABELS = {ONE: 1, TWO: 2}
"""They stand for Dirichlet's α = 0.01 and 0.1."""
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
_FIXED: Mapping[str, Settings] = {
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
    """The same rates for both strategies; and the μ that uses the time budget, whatever its accuracy."""
    return [_rate_search(CALIBRATED, "calibrated"), _rate_search(SAFL, "safl"), _mu_search()]


def _rate_search(name: str, what: str) -> Search:
    return Search(
        name=name,
        key="training.lr",
        values=RATES,
        measure="mean accuracy over the whole run, one label each",
        paper_runs=lambda lr: [_fixed_run(f"search-{lr:g}", ONE, what, seed, lr) for seed in _SEARCHED],
        score=lambda found: fmean(fmean(result.curve()[1]) for result in found),
    )


def _mu_search() -> Search:
    return Search(
        name=MU,
        key="strategy.mu",
        values=MUS,
        measure=f"time used ÷ T_max: the highest that is at most {SLACK:g}, else the lowest (with a minus sign)",
        paper_runs=lambda mu: [_controlled_run(f"search-{mu:g}", "lyapunov", seed, RATES[1], mu) for seed in _SEARCHED],
        score=lambda found: within_budget(fmean(map(usage, found))),
    )


def within_budget(used: float) -> float:
    """The score of a μ: the paper chooses one that uses the time budget, and no more."""
    return used if used <= SLACK else -used


def paper_runs(chosen: Chosen) -> list[PaperRun]:
    """One rate for all, as in the paper; and SAFL at its own rate, if that differs."""
    found = []
    rate, own = chosen[CALIBRATED], chosen[SAFL]
    for seed in SEEDS:
        for where, whats in ((ONE, tuple(_FIXED)), (TWO, _OF_TWO_LABELS)):
            found += [_fixed_run(where, where, what, seed, rate) for what in whats]
        if own != rate:
            found.append(_fixed_run(f"{ONE}-own-rate", ONE, "safl", seed, own))
        found += [_controlled_run("control", control, seed, rate, chosen[MU]) for control in CONTROLS]
    return found


def _fixed_run(place: str, labels: str, what: str, seed: int, lr: float) -> PaperRun:
    settings = {"training.lr": lr, "task.split.per_device": _LABELS[labels], **_FIXED[what]}
    return PaperRun(name=named(place, what, seed), profile="asafl/small.toml", seed=seed, settings=settings)


def _controlled_run(place: str, control: str, seed: int, lr: float, mu: float) -> PaperRun:
    """T rounds, but at most 1.4 times the time budget, which limits greedy."""
    settings: dict[str, SettingValue] = {
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
    """Mean accuracy over the last fifth of the run, or of the time up to ``end``: versions differ by many points where
    devices have one label. If no version was made there, the accuracy of the last one before.
    """
    last = lasted(result) if end is None else end
    scored = [score for at, score in zip(*result.curve(), strict=True) if 0.8 * last <= at <= last]
    return fmean(scored) if scored else result.at(last)


def lasted(result: Result) -> float:
    """Seconds of a run. Its last version and score may be much earlier: in a deep fade a round does not end."""
    return result.summary.seconds


def usage(result: Result) -> float:
    """Unified time usage at the end."""
    last = result.run.versions.rows[-1].time_usage
    assert last is not None, "the strategy plans rounds"
    return last


def longest_round(result: Result) -> float:
    """Seconds of the longest round; the unfinished one at the end of the run counts, too."""
    rows = result.run.versions.rows
    under_way = lasted(result) - rows[-1].time_s
    return max(under_way, *(row.latency_s for row in rows))


def by_part(result: Result, column: str, parts: int = 4) -> list[float]:
    """The mean of a column of versions.csv over equal parts of the rounds."""
    values = [float(value) for value in result.run.versions[column]]
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
        """SAFL at its own rate, one label each; the common runs if the rates are the same."""
        return self.runs(f"{ONE}-own-rate", "safl") or self.runs(ONE, "safl")

    def control(self, what: str) -> dict[int, Result]:
        """The runs of a control; those of the fixed degree are also compared with SAFL."""
        return self.runs(ONE, "calibrated") if what == "fixed" else self.runs("control", what)


def levels(runs: Mapping[int, Result]) -> Scores:
    return {seed: level(result) for seed, result in runs.items()}


def levels_together(groups: Mapping[str, Mapping[int, Result]]) -> dict[str, Scores]:
    """Levels of runs with different durations: up to the end of the shortest one, seed by seed."""
    seeds = set[int].intersection(*(set(runs) for runs in groups.values()))
    last = {seed: min(ends(runs)[seed] for runs in groups.values()) for seed in sorted(seeds)}
    return {name: {seed: level(runs[seed], end) for seed, end in last.items()} for name, runs in groups.items()}


def times(runs: Mapping[int, Result]) -> dict[int, float | None]:
    """Seconds to the target; None where it was not reached."""
    return {seed: result.reached(TARGET) for seed, result in runs.items()}


def ends(runs: Mapping[int, Result]) -> Scores:
    """Seconds of each run."""
    return {seed: lasted(result) for seed, result in runs.items()}


def ratios(fast: Mapping[int, Result], slow: Mapping[int, Result]) -> list[float]:
    """How many times as long the second takes to the target, by seed. A run that did not reach it counts with its whole
    duration, so that the ratio is only a bound; a seed with which neither reached it is omitted.
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


def seconds_text(seconds: Sequence[float | None]) -> str:
    """Seconds to the target, as text."""
    reached = [value for value in seconds if value is not None]
    mean = f"{fmean(reached):.1f} s ({min(reached):.1f} to {max(reached):.1f})" if reached else "never"
    missed = len(seconds) - len(reached)
    return f"{mean}, not with {missed} of {len(seconds)} seeds" if reached and missed else mean
