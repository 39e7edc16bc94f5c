"""ASAFL: calibrated rounds in a radio cell, and the control of their degree. Chen et al. 2024."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from testbed.papers.asafl.reasons import SETTING, UNTESTED
from testbed.papers.asafl.rows import calibration_rows, control_rows, pattern_rows
from testbed.papers.asafl.runs import (
    BASELINES,
    CALIBRATED,
    CONTROLS,
    MU,
    ONE,
    SAFL,
    TARGET,
    TWO,
    AsaflResults,
    by_part,
    levels,
    longest_round,
    paper_runs,
    searches,
    seconds_text,
    times,
    usage,
)
from testbed.papers.framework import paper_figures
from testbed.papers.framework.chapter import Chapter, ChapterTable, PaperFigure
from testbed.papers.framework.number_text import spread
from testbed.papers.framework.paper import Chosen, Paper
from testbed.papers.framework.result import Result, Results


def _calibration_table(found: AsaflResults, chosen: Chosen) -> ChapterTable:
    titles = {"calibrated": f"calibrated, K = 2, η = {chosen[CALIBRATED]:g}", **BASELINES}
    places = [(where, what, found.runs(where, what)) for where in (ONE, TWO) for what in titles]
    places.append((ONE, "own", found.own()))
    titles["own"] = f"SAFL at its own η = {chosen[SAFL]:g}"
    return ChapterTable(
        title="With and without calibration",
        header=("data", "strategy", f"seconds to {TARGET:g}", "accuracy", "versions", "longest round, s"),
        lines=[
            (
                where.replace("-", " "),
                titles[what],
                seconds_text([*times(runs).values()]),
                spread([*levels(runs).values()]),
                spread([float(run.summary.versions) for run in runs.values()], 0),
                _longest(runs),
            )
            for where, what, runs in places
            if runs
        ],
    )


def _control_table(found: AsaflResults, chosen: Chosen) -> ChapterTable:
    rounds = {"fixed": "fixed, K = 2", **CONTROLS, "lyapunov": f"Lyapunov, μ = {chosen[MU]:g}"}
    return ChapterTable(
        title="Control of the degree (calibrated, one label each)",
        header=(
            "control",
            f"seconds to {TARGET:g}",
            "accuracy",
            "rounds",
            "K, by quarter of the rounds",
            "time used ÷ T_max",
            "longest round, s",
        ),
        lines=[
            (
                title,
                seconds_text([*times(runs).values()]),
                spread([*levels(runs).values()]),
                spread([float(run.summary.versions) for run in runs.values()], 0),
                _degrees(runs),
                spread([usage(run) for run in runs.values()], 2),
                _longest(runs),
            )
            for what, title in rounds.items()
            if (runs := found.control(what))
        ],
    )


def _longest(runs: Mapping[int, Result]) -> str:
    return spread([longest_round(run) for run in runs.values()], 1)


def _degrees(runs: Mapping[int, Result]) -> str:
    parts = [by_part(run, "new_updates") for run in runs.values()]
    return ", ".join(f"{sum(part) / len(part):.1f}" for part in zip(*parts, strict=True))


def _figures(found: AsaflResults) -> list[PaperFigure]:
    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, 3, sharey=True)
        first = {"calibrated": found.runs(ONE, "calibrated")} | {
            title: found.runs(ONE, what) for what, title in BASELINES.items()
        }
        second = {what: found.control(what) for what in ("ascending", "fixed", "descending")}
        third = {title: found.control(what) for what, title in list(CONTROLS.items())[2:]}
        for axes, title, lines in zip(
            panels, ("Fig. 2 (a)", "Fig. 4 (a)", "Fig. 6 (a)"), (first, second, third), strict=True
        ):
            for number, (label, runs) in enumerate(lines.items()):
                paper_figures.curves(axes, number, label, list(runs.values()))
            axes.set(title=title, xlabel="seconds")
            if any(lines.values()):
                axes.legend(fontsize="x-small")
        panels[0].set_ylabel("accuracy")

    return [PaperFigure(name="curves", caption="Accuracy by emulated seconds: mean and range of the seeds.", draw=draw)]


def chapter(results: Results, chosen: Chosen) -> Chapter:
    found = AsaflResults(results)
    return Chapter(
        setting=SETTING,
        rows=[*calibration_rows(found), *pattern_rows(found), *control_rows(found), *UNTESTED],
        tables=[_calibration_table(found, chosen), _control_table(found, chosen)],
        figures=_figures(found) if results else (),
    )


PAPER = Paper(
    name="asafl",
    title="Adaptive Semi-Asynchronous Federated Learning over Wireless Networks",
    citation="Z. Chen, W. Yi, H. Shin, A. Nallanathan, 2024 (ASAFL)",
    searches=searches(),
    paper_runs=paper_runs,
    chapter=chapter,
)
