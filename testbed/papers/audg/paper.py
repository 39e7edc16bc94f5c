"""AUDG and PSURDG: which of them is ahead after 50 iterations, by the delay of one device and the skew of the data.

Hao, Cui, Yang, Wu, Feng, Hu: The Impact Analysis of Delays in Asynchronous Federated Learning with Data Heterogeneity
for Edge Intelligence. 2025, section VI.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from testbed.papers.audg import audg_chapter
from testbed.papers.audg.audg_grid import LONG, SEEDS, TITLES, GridCell, phi, row, tried
from testbed.papers.framework.paper import Chosen, Paper
from testbed.papers.framework.paper_run import PaperRun, SettingValue
from testbed.papers.framework.result import Result
from testbed.papers.framework.search import Search

_INTERVAL = 0.07
_VALUES = (0.05, 0.15, 0.45, 1.35)
_TRIED = (("iid", 101), ("large", 102))
"""Setting and seed of the search: the least and the largest heterogeneity, at the delay in the middle."""
_ETA = "both strategies"


def _run(name: str, cell: GridCell, strategy: str, seed: int, eta: float, replays: str = "") -> PaperRun:
    settings: dict[str, SettingValue] = {
        "training.lr": eta,
        "devices[0].phi": phi(cell.delay),
        "strategy.interval": _INTERVAL,  # a strategy that is named has its default parameters
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
    paper_runs = []
    for setting, seed in _TRIED:
        cell = GridCell(setting=setting, delay=5)
        recording = tried(eta, setting, "audg")
        paper_runs += [
            _run(recording, cell, "audg", seed, eta),
            _run(tried(eta, setting, "psurdg"), cell, "psurdg", seed, eta, recording),
        ]
    return paper_runs


def _score(results: Sequence[Result]) -> float:
    return fmean(result.final() for result in results)


def _pairs(cell: GridCell, eta: float) -> list[PaperRun]:
    """Both strategies under the same delays."""
    paper_runs = []
    for seed in SEEDS:
        recording = cell.run_name("audg", seed)
        paper_runs += [
            _run(recording, cell, "audg", seed, eta),
            _run(cell.run_name("psurdg", seed), cell, "psurdg", seed, eta, recording),
        ]
    return paper_runs


def _paper_runs(chosen: Chosen) -> Sequence[PaperRun]:
    eta = chosen[_ETA]
    # without delays both strategies are the same
    paper_runs = [
        _run(cell.run_name("audg", seed), cell, "audg", seed, eta)
        for cell in (GridCell(setting="iid", delay=0), GridCell(setting="small", delay=0))
        for seed in SEEDS
    ]
    for long in (False, True):
        for setting in TITLES:
            for cell in row(setting, long=long):
                paper_runs += _pairs(cell, LONG * eta if long else eta)
    return paper_runs


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
            paper_runs=_searched,
            score=_score,
            measure=(
                "final accuracy at delay 5, mean of both strategies in two settings (IID, seed 101; Large"
                " Non-IID, seed 102): one η for all"
            ),
        ),
    ),
    paper_runs=_paper_runs,
    chapter=lambda results, chosen: audg_chapter.chapter(results, _VALUES),
)
