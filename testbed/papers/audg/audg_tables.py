"""Tables of measurements, for the chapter on AUDG's paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from testbed.papers.audg import theta
from testbed.papers.audg.audg_grid import (
    DELAYS,
    LONG,
    LONG_DELAYS,
    SEEDS,
    STRATEGIES,
    TITLES,
    GridCell,
    decided,
    row,
    tried,
)
from testbed.papers.framework.chapter import ChapterTable
from testbed.papers.framework.number_text import signed, spread
from testbed.papers.framework.result import Results


def differences(results: Results) -> ChapterTable:
    return ChapterTable(
        title="PSURDG − AUDG in final accuracy, by the mean delay of the first device",
        header=("", *map(str, DELAYS)),
        lines=[(TITLES[setting], *(signed(cell.differences(results)) for cell in row(setting))) for setting in TITLES],
    )


def accuracies(results: Results) -> ChapterTable:
    return ChapterTable(
        title="Final accuracy",
        header=("", *map(str, DELAYS)),
        lines=[
            (
                f"{TITLES[setting]}, {strategy.upper()}",
                *(spread(cell.values(results, strategy)) for cell in row(setting)),
            )
            for setting in TITLES
            for strategy in STRATEGIES
        ],
    )


def at_long_steps(results: Results) -> ChapterTable:
    lines = []
    for setting in TITLES:
        cells = row(setting, long=True)
        lines += [
            (f"{TITLES[setting]}, {strategy.upper()}", *(spread(cell.values(results, strategy)) for cell in cells))
            for strategy in STRATEGIES
        ]
        gaps = [cell.differences(results) for cell in cells]
        lines.append((f"{TITLES[setting]}, PSURDG − AUDG", *map(signed, gaps)))
        best = [[_at_better_step(cell, results, strategy) for strategy in STRATEGIES] for cell in cells]
        own = [[other - one for one, other in zip(*each, strict=True)] if all(each) else [] for each in best]
        lines.append((f"{TITLES[setting]}, PSURDG − AUDG, each at its better η of the two", *map(signed, own)))
    return ChapterTable(
        title=f"Final accuracy at {LONG} times the searched η", header=("", *map(str, LONG_DELAYS)), lines=lines
    )


def _at_better_step(cell: GridCell, results: Results, strategy: str) -> list[float]:
    """The accuracies of a strategy at the searched η or at the larger one, whichever has the better mean."""
    both = [replace(cell, long=long).values(results, strategy) for long in (False, True)]
    return max(both, key=fmean) if all(both) else []


def by_rate(results: Results, etas: Sequence[float]) -> ChapterTable:
    """The runs of the search."""
    lines = []
    for setting in ("iid", "large"):
        for eta in etas:
            runs = [results.get(tried(eta, setting, strategy)) for strategy in STRATEGIES]
            found = [[] if run is None else [run.final()] for run in runs]
            both = [found[1][0] - found[0][0]] if all(found) else []
            lines.append((f"{TITLES[setting]}, η = {eta:g}", *map(spread, found), signed(both)))
    return ChapterTable(
        title="How the difference depends on η (delay 5; the runs of the search, one seed)",
        header=("", "AUDG", "PSURDG", "PSURDG − AUDG"),
        lines=lines,
    )


def predictions(results: Results) -> ChapterTable:
    lines = []
    for setting in TITLES:
        for cell in row(setting):
            runs = cell.runs(results, "audg")
            alike = map(theta.same_devices, runs, cell.runs(results, "psurdg"))
            measured = [theta.delays(run) for run in runs]
            skews = theta.skews(cell)
            lines.append(
                (
                    f"{TITLES[setting]}, {cell.delay}",
                    spread([each.tau for each in measured], 2),
                    spread([each.heard for each in measured], 2),
                    "; ".join(signed([theta.theta(each, phi) for each in measured], 2) for phi in skews),
                    "; ".join(spread([theta.break_even(each, phi) for each in measured], 2) for phi in skews),
                    _who(theta.predicted(cell, results)) if runs else "–",
                    _who(decided(cell.differences(results))) if runs else "–",
                    f"{sum(alike)} of {len(SEEDS)}" if runs else "–",
                )
            )
    return ChapterTable(
        title=(
            "Θ in units of LR², with ηL = 1, G = L(R + φ) and μ next to 0, at φ = 0 and, where data differs, at φ ="
            " 3/2·R; the ηL above which it is positive; which one Θ predicts to be ahead, and which one was in all"
            " seeds; pairs of runs with the same devices in every iteration"
        ),
        header=("", "τ = ΣλE[τ]", "E∣I∣", "Θ", "ηL for Θ > 0", "Θ says", "measured", "alike"),
        lines=lines,
    )


def _who(sign: int) -> str:
    return {1: "PSURDG", -1: "AUDG", 0: "open"}[sign]
