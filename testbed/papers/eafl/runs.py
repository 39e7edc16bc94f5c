"""EAFL: what is run, and how it is read. Zhou et al. 2024, section VI, Tables I to III and Fig. 7, on embedded digits.

An iteration is what makes a version of K-asynchronous rules: K updates. GSGM makes a version of each update, and EAFL
without DSA one of each head's answer; so their iterations are several versions, and all rules are compared after T.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from types import MappingProxyType
from typing import Any

from testbed.papers.framework.job import PaperRun
from testbed.papers.framework.paper import Chosen
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
"""About what EAFL takes for T: how long its rivals go on where they are compared in time."""
_CALM = 0.7
"""Dilation of EAFL's rivals, whose devices mostly wait; EAFL's own is the profile's, which heads need."""
FEW, MANY = 5, 10
"""K: updates of an iteration, those of φ = 0.05 and 0.10 among the paper's 100 devices."""
LABELS = (1, 5, 10)
RATES = (0.1, 0.3, 0.9, 2.7)
RULES: Mapping[str, str] = MappingProxyType({"eafl": "EAFL", "twafl": "TWAFL", "gsgm": "GSGM", "wkafl": "WKAFL"})
ABLATIONS = ("gdc", "saa", "dsa")
Scores = Mapping[int, float]
"""By seed."""


def place(labels: int, k: int = FEW, without: str = "") -> str:
    """What the jobs of one cell of a table are called, before rule and seed."""
    return f"labels{labels}-k{k}" + (f"-without-{without}" if without else "")


def named(where: str, strategy: str, seed: int) -> str:
    return f"{where}-{strategy}-seed{seed}"


def per_iteration(job: PaperRun) -> int:
    """Versions that make one iteration."""
    if job.strategy == "gsgm":
        return int(job.settings["strategy.s"])
    return CLUSTERS if job.settings.get("strategy.dsa") is False else 1


def iterations(result: Result) -> tuple[list[float], list[float]]:
    """Each score, and after how many iterations it was reached."""
    versions, scores = result.curve(over="version")
    return [version / per_iteration(result.job) for version in versions], scores


def level(places: Sequence[float], scores: Sequence[float], end: float) -> float:
    """The mean over the last fifth of the way to ``end``; if nothing was scored there, the last score before it.

    One version is better or worse by many points than the next, as long as devices have one label each.
    """
    last = [score for x, score in zip(places, scores, strict=True) if 0.8 * end < x <= end]
    before = [score for x, score in zip(places, scores, strict=True) if x <= end]
    return fmean(last) if last else (before or list(scores))[-1]


def reached(result: Result) -> float:
    """Accuracy after T iterations."""
    return level(*iterations(result), T)


def searches() -> list[Search]:
    """The same values for every rule, where devices have one label each."""
    return [_search(strategy, title) for strategy, title in RULES.items()]


def _search(strategy: str, title: str) -> Search:
    return Search(
        name=title,
        key="training.lr",
        values=RATES,
        measure=f"mean accuracy, iterations {4 * T // 5} to {T}",
        jobs=lambda lr: [_job(f"search-{lr:g}", strategy, seed, lr, 1, FEW) for seed in _SEARCHED],
        score=lambda found: fmean(map(reached, found)),
    )


def jobs(chosen: Chosen) -> list[PaperRun]:
    found = []
    for seed in SEEDS:
        for strategy, title in RULES.items():
            lr = chosen[title]
            found.append(_job(place(1), strategy, seed, lr, 1, FEW, lasting=True))
            found += [
                _job(place(labels, k), strategy, seed, lr, labels, k) for labels, k in ((5, FEW), (10, FEW), (1, MANY))
            ]
        found += [_job(place(1, FEW, part), "eafl", seed, chosen["EAFL"], 1, FEW, without=part) for part in ABLATIONS]
    return found


def _job(
    where: str, strategy: str, seed: int, lr: float, labels: int, k: int, *, without: str = "", lasting: bool = False
) -> PaperRun:
    """``lasting``: a rival goes on as long as EAFL takes, to be compared in time, too."""
    settings: dict[str, Any] = {
        "training.lr": lr,
        "task.split": f'{{ name = "labels", per_device = {labels} }}',
        **_rule(strategy, k, without),
    }
    job = PaperRun(
        name=named(where, strategy, seed), profile="eafl/small-t2.toml", seed=seed, strategy=strategy, settings=settings
    )
    if lasting and strategy != "eafl":
        end = {"stop.seconds": _SECONDS, "stop.versions": 10 * T * per_iteration(job)}
    else:
        end = {"stop.versions": T * per_iteration(job)}
    return PaperRun(name=job.name, profile=job.profile, seed=seed, strategy=strategy, settings=settings | end)


def _rule(strategy: str, k: int, without: str) -> dict[str, Any]:
    if strategy == "gsgm":
        return {"strategy.s": k, "dilation": _CALM}
    if strategy != "eafl":
        return {"strategy.k": k, "dilation": _CALM}
    settings = {"strategy.clusters": CLUSTERS, "strategy.every": R, "strategy.phi": k / DEVICES}
    if without:
        settings[f"strategy.{without}"] = False
    if without == "dsa":  # its versions are answers of one head
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
        """After as many emulated seconds as all rules were run for, with this seed."""
        found = {}
        for seed, result in self.runs(place(1), strategy).items():
            ends = [self.runs(place(1), other)[seed].curve()[0][-1] for other in RULES if self._has(other, seed)]
            found[seed] = level(*result.curve(), min(ends))
        return found

    def _has(self, strategy: str, seed: int) -> bool:
        return seed in self.runs(place(1), strategy)

    def seconds(self, where: str, strategy: str = "eafl") -> list[float]:
        """That T iterations took."""
        found = []
        for result in self.runs(where, strategy).values():
            moments, (done, _) = result.curve()[0], iterations(result)
            found.append(next((at for at, number in zip(moments, done, strict=True) if number >= T), moments[-1]))
        return found
