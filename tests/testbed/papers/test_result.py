"""The results of a run, and how they are printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from testbed.papers.framework import paper_figures
from testbed.papers.framework.number_text import signed, spread
from testbed.papers.framework.paper_run import PaperRun
from testbed.papers.framework.search import Search
from tests.testbed.papers.small import paper_run, result


def test_scores(tmp_path: Path) -> None:
    found = result(tmp_path, 0.8)
    assert found.curve() == ([0, 1, 2], [0.1, 0.8, 0.7])
    assert found.curve(over="version") == ([0, 10, 20], [0.1, 0.8, 0.7])
    assert found.curve(over="joules") == ([0, 9], [0.1, 0.7])
    assert (found.final(), found.best(), found.best(lower=True)) == (0.7, 0.8, 0.1)
    assert found.fidelity == "PASS"


@pytest.mark.parametrize(("place", "score"), [(-1, 0.1), (0, 0.1), (0.99, 0.1), (1, 0.8), (1.5, 0.8), (9, 0.7)])
def test_the_score_at_a_time(tmp_path: Path, place: float, score: float) -> None:
    assert result(tmp_path, 0.8).at(place) == score


def test_when_a_target_is_reached(tmp_path: Path) -> None:
    found = result(tmp_path, 0.8)
    assert found.reached(0.8) == 1
    assert found.reached(0.8, over="version") == 10
    assert found.reached(0.9) is None
    assert found.reached(0.1, lower=True) == 0


def test_a_command_line() -> None:
    settings = {"training.lr": 0.1, "task.split": "iid", "task.split.sizes": [1, 2], "strategy.calibrated": False}
    assert PaperRun(name="a", profile="audg/iid.toml", seed=7, strategy="psurdg", settings=settings).words() == [
        "run",
        "audg/iid.toml",
        "--seed=7",
        "--strategy=psurdg",
        "--set=training.lr=0.1",
        "--set=task.split=iid",
        "--set=task.split.sizes=[1, 2]",
        "--set=strategy.calibrated=false",
    ]


def test_the_experiment_matches_the_command_line() -> None:
    found = paper_run("a", seed=5, strategy="fedbuff", settings={"training.lr": 0.7, "stop.seconds": 3}).experiment()
    assert (found.seed, found.strategy_name, found.training.lr, found.stop.seconds) == (5, "fedbuff", 0.7, 3)


def test_means_and_ranges() -> None:
    assert spread([0.9, 0.92, 0.94]) == "0.920 (0.900 to 0.940)"
    assert spread([12.0], digits=1) == "12.0"
    assert signed([-0.01, 0.03], digits=2) == "+0.01 (−0.01 to +0.03)"
    assert signed([-0.5], digits=1) == "−0.5"
    assert spread([]) == signed([]) == "–"


def test_the_highest_score_wins(tmp_path: Path) -> None:
    names = {0.1: "a", 0.2: "b", 0.3: "c"}
    search = Search(
        name="rate",
        key="training.lr",
        values=(0.1, 0.2, 0.3),
        paper_runs=lambda value: [paper_run(names[value])],
        score=lambda found: found[0].best(),
        measure="best accuracy",
    )
    results = {name: result(tmp_path / name, best) for name, best in (("a", 0.3), ("b", 0.5), ("c", 0.9))}
    assert search.scores(results) == {0.1: 0.3, 0.2: 0.5, 0.3: 0.9}
    assert search.chosen(results) == 0.3
    del results["a"]
    assert search.chosen(results) == 0.2, "nothing is chosen while a value is missing"


def test_a_line_is_the_mean_and_ends_with_the_shortest_run(tmp_path: Path) -> None:
    axes = Figure().subplots()
    paper_figures.curves(axes, 0, "strategy", [result(tmp_path / "a", 0.8), result(tmp_path / "b", 0.6)])
    (line,) = axes.get_lines()
    assert line.get_xdata()[-1] == 2
    assert line.get_ydata()[-1] == pytest.approx(0.6)
    paper_figures.curves(axes, 1, "nothing", [])
    assert len(axes.get_lines()) == 1
