"""EAFL: its runs, and how their results are read. Zhou et al. 2024, section VI, Tables I to III and Fig. 7, on embedded
digits.

An iteration of a K-asynchronous strategy is one version: K updates. GSGM makes a version from each update, and EAFL
without DSA one from each head's answer; so their iterations have several versions. All strategies are compared after T
iterations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from types import MappingProxyType

from testbed.papers.framework.paper import Chosen
from testbed.papers.framework.paper_run import PaperRun, Settings, SettingValue
from testbed.papers.framework.result import Result, Results
from testbed.papers.framework.search import Search

SEEDS = (1, 2, 3)
_SEARCHED = (101,)
DEVICES, CLUSTERS = 40, 5
T = 150
"""Iterations; the paper has 1600."""
R = 15
"""From one clustering to the next; the paper has 100."""
_SECONDS = 43.0
"""About the duration of T iterations of EAFL: where strategies are compared in time, its rivals run as long."""
_CALM = 0.7
"""Dilation of EAFL's rivals, whose devices mostly wait; EAFL has that of the profile, because of its heads."""
FRESH = True
"""Devices train for every clustering, as they did in the runs of docs/papers.md. With False, as in the paper, the
reasons for the verdicts must be found again."""
FEW, MANY = 5, 10
"""K: updates of an iteration, those of φ = 0.05 and 0.10 among the paper's 100 devices."""
LABELS = (1, 5, 10)
RATES = (0.1, 0.3, 0.9, 2.7)
STRATEGIES: Mapping[str, str] = MappingProxyType({"eafl": "EAFL", "twafl": "TWAFL", "gsgm": "GSGM", "wkafl": "WKAFL"})
ABLATIONS = ("gdc", "saa", "dsa")
Scores = Mapping[int, float]
"""By seed."""


def place(labels: int, k: int = FEW, without: str = "") -> str:
    """The part of a run's name that comes before strategy and seed: one cell of a table."""
    return f"labels{labels}-k{k}" + (f"-without-{without}" if without else "")


def named(where: str, strategy: str, seed: int) -> str:
    return f"{where}-{strategy}-seed{seed}"


def per_iteration(paper_run: PaperRun) -> int:
    """Versions per iteration."""
    if paper_run.strategy == "gsgm":
        return int(paper_run.settings["strategy.s"])
    return CLUSTERS if paper_run.settings.get("strategy.dsa") is False else 1


def iterations(result: Result) -> tuple[list[float], list[float]]:
    """The iterations after which each score was reached, and the scores."""
    versions, scores = result.curve(over="version")
    return [version / per_iteration(result.paper_run) for version in versions], scores


def level(places: Sequence[float], scores: Sequence[float], end: float) -> float:
    """The mean score over the last fifth of the places up to ``end``; if there is none, the last score before.

    With one label for each device, consecutive versions differ by many points.
    """
    last = [score for x, score in zip(places, scores, strict=True) if 0.8 * end < x <= end]
    before = [score for x, score in zip(places, scores, strict=True) if x <= end]
    return fmean(last) if last else (before or list(scores))[-1]


def reached(result: Result) -> float:
    """Accuracy after T iterations."""
    return level(*iterations(result), T)


def searches() -> list[Search]:
    """The same values for every strategy, with one label for each device."""
    return [_search(strategy, title) for strategy, title in STRATEGIES.items()]


def _search(strategy: str, title: str) -> Search:
    return Search(
        name=title,
        key="training.lr",
        values=RATES,
        measure=f"mean accuracy, iterations {4 * T // 5} to {T}",
        paper_runs=lambda lr: [_run(f"search-{lr:g}", strategy, seed, lr, 1, FEW) for seed in _SEARCHED],
        score=lambda found: fmean(map(reached, found)),
    )


def paper_runs(chosen: Chosen) -> list[PaperRun]:
    found = []
    for seed in SEEDS:
        for strategy, title in STRATEGIES.items():
            lr = chosen[title]
            found.append(_run(place(1), strategy, seed, lr, 1, FEW, lasting=True))
            found += [
                _run(place(labels, k), strategy, seed, lr, labels, k) for labels, k in ((5, FEW), (10, FEW), (1, MANY))
            ]
        found += [_run(place(1, FEW, part), "eafl", seed, chosen["EAFL"], 1, FEW, without=part) for part in ABLATIONS]
    return found


def _run(
    where: str, strategy: str, seed: int, lr: float, labels: int, k: int, *, without: str = "", lasting: bool = False
) -> PaperRun:
    """``lasting``: a rival runs as long as EAFL, so that both can also be compared in time."""
    settings: dict[str, SettingValue] = {
        "training.lr": lr,
        "task.split": f'{{ name = "labels", per_device = {labels} }}',
        **_strategy_settings(strategy, k, without),
    }
    run = PaperRun(
        name=named(where, strategy, seed), profile="eafl/small-t2.toml", seed=seed, strategy=strategy, settings=settings
    )
    if lasting and strategy != "eafl":
        end = {"stop.seconds": _SECONDS, "stop.versions": 10 * T * per_iteration(run)}
    else:
        end = {"stop.versions": T * per_iteration(run)}
    return PaperRun(name=run.name, profile=run.profile, seed=seed, strategy=strategy, settings=settings | end)


def _strategy_settings(strategy: str, k: int, without: str) -> Settings:
    if strategy == "gsgm":
        return {"strategy.s": k, "dilation": _CALM}
    if strategy != "eafl":
        return {"strategy.k": k, "dilation": _CALM}
    settings = {
        "strategy.clusters": CLUSTERS,
        "strategy.every": R,
        "strategy.phi": k / DEVICES,
        "strategy.fresh": FRESH,
    }
    if without:
        settings[f"strategy.{without}"] = False
    if without == "dsa":  # each version is the answer of one head
        settings["strategy.every"] = R * CLUSTERS
    return settings


class EaflResults:
    """Results by their place in the tables."""

    def __init__(self, results: Results) -> None:
        self._results = results

    def runs(self, where: str, strategy: str = "eafl") -> dict[int, Result]:
        names = {seed: named(where, strategy, seed) for seed in SEEDS}
        return {seed: self._results[name] for seed, name in names.items() if name in self._results}

    def after_t(self, where: str, strategy: str = "eafl") -> Scores:
        return {seed: reached(result) for seed, result in self.runs(where, strategy).items()}

    def in_time(self, strategy: str) -> Scores:
        """Accuracy by seed, after the emulated seconds that all strategies ran with that seed."""
        found = {}
        for seed, result in self.runs(place(1), strategy).items():
            ends = [self.runs(place(1), other)[seed].curve()[0][-1] for other in STRATEGIES if self._has(other, seed)]
            found[seed] = level(*result.curve(), min(ends))
        return found

    def _has(self, strategy: str, seed: int) -> bool:
        return seed in self.runs(place(1), strategy)

    def seconds(self, where: str, strategy: str = "eafl") -> list[float]:
        """Emulated seconds of T iterations."""
        found = []
        for result in self.runs(where, strategy).values():
            moments, (done, _) = result.curve()[0], iterations(result)
            found.append(next((at for at, number in zip(moments, done, strict=True) if number >= T), moments[-1]))
        return found
