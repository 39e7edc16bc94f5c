"""The figures of AFL's paper with our measurements, and figures over seconds and joules, which it does not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from testbed.papers.afl.afl_rounds import AFL, FALLING, FRACTIONS, SYNC, TASKS, Key, Track, Tracks, mean_loss, runs_of
from testbed.papers.framework.chapter import PaperFigure
from testbed.papers.framework.paper_figures import COLOURS, STYLES, curves
from testbed.papers.framework.result import Result
from testbed.report.figures.style import FULL_WIDTH, HEIGHT

LABELS = {AFL: "AFL", SYNC: "Sync-FL", FALLING: "Sync-FL, AFL's rate"}


def figures(done: Mapping[Key, Result], tracks: Tracks) -> list[PaperFigure]:
    return [
        PaperFigure(
            name="rounds",
            draw=_by_strategy(tracks),
            caption="Loss by round, mean over C = 0.2, 0.5, 0.9 and the seeds (the paper's Fig. 6 and 10).",
        ),
        PaperFigure(
            name="fractions",
            draw=_by_fraction(tracks),
            caption="Loss of AFL by round and fraction C, mean over the seeds (the paper's Fig. 5 and 9).",
        ),
        PaperFigure(
            name="sums",
            draw=_sums(tracks),
            caption="AFL, regression: cumulative wall-clock time and energy as the paper defines them (Fig. 3 and 4);"
            " one line for each seed.",
        ),
        PaperFigure(
            name="seconds",
            draw=_by_cost(done, "time_s", "seconds"),
            caption="Loss over emulated seconds: mean and range over the seeds.",
        ),
        PaperFigure(
            name="joules",
            draw=_by_cost(done, "joules", "joules of the fleet"),
            caption="Loss over joules of the whole fleet, idle devices too: mean and range over the seeds.",
        ),
    ]


def _by_strategy(tracks: Tracks) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        for axes, task in zip(figure.subplots(1, 2), TASKS, strict=True):
            for number, strategy in enumerate((AFL, SYNC)):
                runs = [run for key, run in tracks.items() if key[:2] == (task, strategy)]
                _line(axes, number, LABELS[strategy], mean_loss(runs))
            _finish(axes, "round", TASKS[task])

    return draw


def _by_fraction(tracks: Tracks) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        for axes, task in zip(figure.subplots(1, 2), TASKS, strict=True):
            for number, fraction in enumerate(FRACTIONS):
                _line(axes, number, f"C = {fraction:g}", mean_loss(runs_of(tracks, task, AFL, fraction)))
            _finish(axes, "round", f"AFL, {TASKS[task]}")

    return draw


def _by_cost(done: Mapping[Key, Result], over: str, label: str) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        figure.set_size_inches(FULL_WIDTH, 2 * HEIGHT)
        grid = figure.subplots(len(TASKS), len(FRACTIONS), sharey="row")
        for row, task in zip(grid, TASKS, strict=True):
            for axes, fraction in zip(row, FRACTIONS, strict=True):
                for number, strategy in enumerate((AFL, SYNC)):
                    results = [result for key, result in done.items() if key[:3] == (task, strategy, fraction)]
                    curves(axes, number, LABELS[strategy], results, "loss", over)
                _finish(axes, label, f"{TASKS[task]}, C = {fraction:g}")

    return draw


def _sums(tracks: Tracks) -> Callable[[Figure], None]:
    kinds: Sequence[tuple[str, Callable[[Track], Sequence[float]]]] = (
        ("Σ(max − min) in s", lambda run: run.waited),
        ("Σ P·τ in J", lambda run: run.proxy),
    )

    def draw(figure: Figure) -> None:
        for axes, (label, values) in zip(figure.subplots(1, 2), kinds, strict=True):
            for number, fraction in enumerate(FRACTIONS):
                for seed, run in enumerate(runs_of(tracks, "regression", AFL, fraction)):
                    _line(axes, number, "" if seed else f"C = {fraction:g}", [0.0, *values(run)])
            axes.set(xlabel="round", ylabel=label)
            axes.legend()

    return draw


def _line(axes: Axes, number: int, label: str, values: Sequence[float]) -> None:
    axes.plot(range(len(values)), values, color=COLOURS[number], linestyle=STYLES[number], label=label or None)


def _finish(axes: Axes, label: str, title: str) -> None:
    axes.set(xlabel=label, ylabel="loss", yscale="log", title=title)
    axes.yaxis.set_major_formatter("{x:g}")  # by default, logarithmic axes show formulas, which the style disables
    axes.yaxis.set_minor_formatter("")
    if axes.lines:
        axes.legend()
