"""AFL against Sync-FL on its paper's two convex tasks, for several fractions C of devices in flight."""

from __future__ import annotations

from testbed.papers.afl import afl_figures, claims, costs
from testbed.papers.afl.afl_rounds import (
    AFL,
    EARLY,
    FALLING,
    FRACTIONS,
    SYNC,
    TARGETS,
    TASKS,
    Key,
    Tracks,
    fluctuation,
    runs_of,
    track,
)
from testbed.papers.afl.afl_verdicts import finite_spread
from testbed.papers.framework.chapter import Chapter, ChapterTable
from testbed.papers.framework.number_text import spread
from testbed.papers.framework.paper import Chosen, Paper
from testbed.papers.framework.paper_run import PaperRun, SettingValue
from testbed.papers.framework.result import Results

SEEDS = (1, 2, 3)
_DEVICES = 10
_ROUNDS = {AFL: 70, SYNC: 16, FALLING: 16}
_STARTING_TOGETHER = 1.5
"""Dilation of Sync-FL's runs at the larger C: five or nine devices start at the same moment on one core."""
_SETTING = f"""\
As in the paper: both tasks and their data (2000 samples, 10 inputs), 10 devices, a Dirichlet split with 0.5, α = 0.01,
C = 0.2, 0.5 and 0.9. Smaller: {_ROUNDS[AFL]} rounds of AFL and {_ROUNDS[SYNC]} of Sync-FL instead of 400 and 1000, and
4 local epochs in batches of 128 instead of 50 (SVM: 100) in batches of 32. The initial rate is 0.05 instead of 0.001
(0.0005): epochs × rate ÷ batch is the same as in the paper, so that a job moves its model equally far
at a constant rate. Nothing was searched for. A device has at least 64 samples, and the speed, power and Wi-Fi of a
Raspberry Pi 3B+; the paper's clients are coroutines on a laptop.

Chosen in advance with a simulation in numpy (its own data and models; 1 to 3 were among its seeds): the local epochs
and batches, the number of rounds, the target losses. They are the same for both strategies.

AFL is the strategy of the paper's text: the mean of every device's latest model, computed at each arrival, and another
device is started at once. A round is C·N arrivals; a fast device may contribute twice to one. Sync-FL has a constant
local rate, and replayed the delays of AFL's run with the same C and seed. Loss is on 500 further samples. *Fluctuation*
of a loss is the mean |second difference| of its logarithm from round to round, over the later half of a run."""


def paper_runs(_: Chosen) -> list[PaperRun]:
    found = []
    for task in TASKS:
        for seed in SEEDS:
            for fraction in FRACTIONS:
                recorded = Key(task, AFL, fraction, seed)
                found.append(_run(recorded))
                found.append(_run(Key(task, SYNC, fraction, seed), recorded))
                if fraction == 0.5:
                    found.append(_run(Key(task, FALLING, fraction, seed), recorded))
    return found


def _run(key: Key, recorded: Key | None = None) -> PaperRun:
    per_round = round(key.fraction * _DEVICES) if key.strategy == AFL else 1
    settings: dict[str, SettingValue] = {
        "strategy.fraction": key.fraction,
        "stop.versions": _ROUNDS[key.strategy] * per_round,
    }
    if key.strategy != AFL and key.fraction > min(FRACTIONS):
        settings["dilation"] = _STARTING_TOGETHER
    if key.strategy == FALLING:
        settings["training.lr_schedule"] = "inverse-sqrt"
    return PaperRun(
        name=key.name,
        profile=f"afl/small-{key.task}.toml",
        seed=key.seed,
        strategy="" if key.strategy == AFL else SYNC,
        settings=settings,
        replays=recorded.name if recorded else "",
    )


def chapter(results: Results, _: Chosen) -> Chapter:
    done = {key: results[key.name] for key in _keys() if key.name in results}
    tracks = {key: track(result, TARGETS[key.task]) for key, result in done.items()}
    return Chapter(
        setting=_SETTING,
        rows=[*claims.rows(tracks), *costs.rows(tracks)],
        tables=[_table(tracks, task) for task in TASKS] if tracks else [],
        figures=afl_figures.figures(done, tracks) if tracks else [],
    )


def _keys() -> list[Key]:
    return [Key(task, strategy, c, seed) for task in TASKS for strategy in _ROUNDS for c in FRACTIONS for seed in SEEDS]


def _table(tracks: Tracks, task: str) -> ChapterTable:
    lines = []
    for strategy in _ROUNDS:
        for fraction in FRACTIONS:
            runs = runs_of(tracks, task, strategy, fraction)
            if runs:
                lines.append(
                    (
                        afl_figures.LABELS[strategy],
                        f"{fraction:g}",
                        spread([run.loss[EARLY] for run in runs], 2),
                        spread([run.loss[-1] for run in runs]),
                        finite_spread([run.until(TARGETS[task]) for run in runs]),
                        finite_spread([run.to_target_s for run in runs], 1),
                        finite_spread([run.to_target_j for run in runs]),
                        spread([run.seconds_per_round for run in runs], 2),
                        spread([fluctuation(run) for run in runs]),
                    )
                )
    target = f"{TARGETS[task]:g}"
    return ChapterTable(
        title=f"{TASKS[task]}, seeds {', '.join(map(str, SEEDS))}",
        header=(
            "strategy",
            "C",
            f"loss, round {EARLY}",
            "last loss",
            f"rounds to {target}",
            f"seconds to {target}",
            f"joules to {target}",
            "seconds per round",
            "fluctuation",
        ),
        lines=lines,
    )


PAPER = Paper(
    name="afl",
    title="AFL: asynchronous federated learning, a scalable approach",
    citation="A. Forootani, R. Iervolino: Asynchronous Federated Learning: A Scalable Approach for Decentralized"
    " Machine Learning. 2025.",
    paper_runs=paper_runs,
    chapter=chapter,
)
