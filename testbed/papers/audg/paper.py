"""AUDG and PSURDG: which of them is ahead after 50 iterations, by the delay of one device and the skew of the data.

Hao, Cui, Yang, Wu, Feng, Hu: The Impact Analysis of Delays in Asynchronous Federated Learning with Data Heterogeneity
for Edge Intelligence. 2025, section VI.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from testbed.papers.audg import audg_chapter
from testbed.papers.audg.audg_grid import LONG, SEEDS, TITLES, GridCell, phi, row, tried
from testbed.papers.framework.job import PaperRun
from testbed.papers.framework.paper import Chosen, Paper
from testbed.papers.framework.result import Result
from testbed.papers.framework.search import Search

_INTERVAL = 0.07
_VALUES = (0.05, 0.15, 0.45, 1.35)
_TRIED = (("iid", 101), ("large", 102))
"""Setting and seed of the search: the least and the largest heterogeneity, at the delay in the middle."""
_ETA = "both rules"


def _job(name: str, cell: GridCell, strategy: str, seed: int, eta: float, replays: str = "") -> PaperRun:
    settings: dict[str, object] = {
        "training.lr": eta,
        "devices[0].phi": phi(cell.delay),
        "strategy.interval": _INTERVAL,  # a rule that is named begins with its defaults
    }
    if cell.delay == 0:
        settings["devices[1].phi"] = 1.0
    return PaperRun(
        name=name,
        profile=f"audg/small-{cell.setting}.toml",
        seed=seed,
        strategy=strategy,
        settings=settings,
        replays=replays,
    )


def _searched(eta: float) -> Sequence[PaperRun]:
    jobs = []
    for setting, seed in _TRIED:
        cell = GridCell(setting=setting, delay=5)
        recording = tried(eta, setting, "audg")
        jobs += [
            _job(recording, cell, "audg", seed, eta),
            _job(tried(eta, setting, "psurdg"), cell, "psurdg", seed, eta, recording),
        ]
    return jobs


def _score(results: Sequence[Result]) -> float:
    return fmean(result.final() for result in results)


def _pairs(cell: GridCell, eta: float) -> list[PaperRun]:
    """Both rules under the same delays."""
    jobs = []
    for seed in SEEDS:
        recording = cell.job("audg", seed)
        jobs += [
            _job(recording, cell, "audg", seed, eta),
            _job(cell.job("psurdg", seed), cell, "psurdg", seed, eta, recording),
        ]
    return jobs


def _jobs(chosen: Chosen) -> Sequence[PaperRun]:
    eta = chosen[_ETA]
    # without delays the two rules are one
    jobs = [
        _job(cell.job("audg", seed), cell, "audg", seed, eta)
        for cell in (GridCell(setting="iid", delay=0), GridCell(setting="small", delay=0))
        for seed in SEEDS
    ]
    for long in (False, True):
        for setting in TITLES:
            for cell in row(setting, long=long):
                jobs += _pairs(cell, LONG * eta if long else eta)
    return jobs


PAPER = Paper(
    name="audg",
    title="AUDG and PSURDG",
    citation=(
        "Hao, Cui, Yang, Wu, Feng, Hu: The Impact Analysis of Delays in Asynchronous Federated Learning with Data"
        " Heterogeneity for Edge Intelligence. 2025."
    ),
    searches=(
        Search(
            name=_ETA,
            key="training.lr",
            values=_VALUES,
            jobs=_searched,
            score=_score,
            measure=(
                "final accuracy at delay 5, mean of both rules in two settings (IID, seed 101; Large"
                " Non-IID, seed 102): one η for all"
            ),
        ),
    ),
    jobs=_jobs,
    chapter=lambda results, chosen: audg_chapter.chapter(results, _VALUES),
)
