"""EAFL's programme, how its runs are read, and its verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from testbed.loading import profile_files, profile_loader
from testbed.papers.eafl import paper as eafl
from testbed.papers.eafl import runs, verdicts
from testbed.papers.eafl.reasons import REASONS
from testbed.papers.framework.chapter import ClaimRow, ClaimVerdict
from testbed.papers.framework.paper_run import PaperRun
from testbed.papers.framework.result import Result
from tests.testbed.papers.parts import check, chosen
from tests.testbed.papers.small import leave_run, scored

HIGH, LOW = {1: 0.9, 2: 0.8, 3: 0.85}, {1: 0.5, 2: 0.6, 3: 0.55}


def test_the_programme_passes_the_common_checks():
    check(eafl.PAPER)


@pytest.mark.parametrize(
    ("name", "iterations", "clusters", "every", "phi", "lr"),
    [("mnist", 1600, 5, 100, 0.1, 0.005), ("cifar10", 10000, 15, 1000, 0.2, 0.0005)],
)
@pytest.mark.parametrize("kind", ["t1", "t2"])
def test_the_experiments_of_the_papers_size_have_its_settings(name, kind, iterations, clusters, every, phi, lr):
    experiment = profile_loader.load(profile_files.located(Path(f"eafl/{name}-{kind}.toml")))
    strategy = experiment.strategy
    assert sum(group.count for group in experiment.devices) == 100
    assert (strategy["clusters"], strategy["every"], strategy["phi"], experiment.training.lr) == (
        clusters,
        every,
        phi,
        lr,
    )
    assert (experiment.task["name"], experiment.stop.versions) == (name, iterations)
    split = {"t1": {"name": "sorted", "epsilon": 0.04}, "t2": {"name": "labels", "per_device": 1}}[kind]
    assert experiment.task["split"] == split


def test_an_iteration_has_the_same_number_of_updates_for_every_strategy():
    paper_runs = {paper_run.name: paper_run for paper_run in eafl.PAPER.paper_runs(chosen(eafl.PAPER))}
    gsgm, wide = paper_runs["labels1-k5-gsgm-seed1"], paper_runs["labels1-k10-gsgm-seed1"]
    assert [runs.per_iteration(paper_run) for paper_run in (gsgm, wide)] == [5, 10]
    assert wide.experiment().stop.versions == 10 * runs.T
    apart = paper_runs["labels1-k5-without-dsa-eafl-seed1"]
    assert runs.per_iteration(apart) == 5
    assert (
        apart.experiment().strategy["every"] == 5 * paper_runs["labels1-k5-eafl-seed1"].experiment().strategy["every"]
    )


def test_a_level_is_the_mean_over_the_last_fifth():
    assert runs.level([10, 85, 90, 100, 110], [0.1, 0.4, 0.6, 0.8, 0.9], 100) == pytest.approx(0.6)
    assert runs.level([10, 20], [0.1, 0.2], 100) == 0.2, "nothing was scored there"


def test_ahead_means_by_a_point_and_with_most_seeds():
    assert verdicts.is_above(HIGH, LOW)
    assert not verdicts.is_above(LOW, HIGH)
    assert not verdicts.is_above({1: 0.505, 2: 0.605}, LOW), "half a point is not enough"
    assert not verdicts.is_above({1: 0.9, 2: 0.59, 3: 0.54}, LOW), "with one seed of three"


@pytest.mark.parametrize(
    ("claims", "verdict"),
    [
        ([(HIGH, LOW)], ClaimVerdict.DIRECTION),
        ([(HIGH, LOW), (LOW, HIGH)], ClaimVerdict.DIFFERS),
        ([(HIGH, LOW), (HIGH, {})], ClaimVerdict.MISSING),
        ([(HIGH, {4: 0.1})], ClaimVerdict.MISSING),
    ],
)
def test_a_claim_holds_only_if_all_its_parts_do(claims, verdict):
    assert verdicts.all_hold(claims) is verdict


def test_without_runs_nothing_was_measured():
    rows = eafl.PAPER.chapter({}, chosen(eafl.PAPER)).rows
    assert {row.verdict for row in rows} == {ClaimVerdict.MISSING, ClaimVerdict.UNTESTED}
    assert {row.ours for row in rows} == {"–"}


def _leave(folder: Path, paper_run: PaperRun, accuracy: float) -> Result:
    """A run with this constant accuracy, and five iterations a second."""
    each = runs.per_iteration(paper_run)
    metrics = [scored(number / 5, version=number * each, accuracy=accuracy) for number in range(runs.T + 1)]
    run = leave_run(folder / paper_run.name, metrics)
    return Result(paper_run=paper_run, folder=run, took=1.0, attempts=1)


def _accuracy(paper_run: PaperRun) -> float:
    """The accuracy in the paper."""
    if "without" in paper_run.name:
        return 0.7
    kind, k, strategy, _ = paper_run.name.split("-")
    if strategy == "eafl":
        return 0.93 + (k == "k10") * 0.01
    printed = {
        ("labels1", "k5"): {"twafl": 0.55, "gsgm": 0.83, "wkafl": 0.71},
        ("labels1", "k10"): {"twafl": 0.82, "gsgm": 0.86, "wkafl": 0.75},
        ("labels5", "k5"): dict.fromkeys(runs.STRATEGIES, 0.9),
    }
    return printed.get((kind, k), {}).get(strategy, 0.95)


def _rows(folder: Path, **changed: float) -> dict[str, ClaimRow]:
    paper_runs = eafl.PAPER.paper_runs(chosen(eafl.PAPER))
    results = {
        paper_run.name: _leave(folder, paper_run, changed.get(paper_run.strategy, _accuracy(paper_run)))
        for paper_run in paper_runs
    }
    chapter = eafl.PAPER.chapter(results, chosen(eafl.PAPER))
    assert len(chapter.tables[0].lines) == 4 * 4 + 3
    figure = Figure()
    chapter.figures[0].draw(figure)
    assert [len(axes.lines) for axes in figure.axes] == [4, 4], "a line for each strategy"
    assert all(line[-1].startswith(f"{runs.T / 5:.1f} ") for line in chapter.tables[0].lines), "seconds to T"
    return {f"{row.where}: {row.claim}": row for row in chapter.rows}


def test_results_like_the_papers_agree_in_direction(tmp_path):
    rows = _rows(tmp_path).values()
    measured = [row for row in rows if row.verdict is not ClaimVerdict.UNTESTED]
    assert {row.verdict for row in measured} - {ClaimVerdict.DIRECTION} == set(), "an order at most, at another scale"


def test_the_claim_does_not_agree_if_another_strategy_is_better(tmp_path):
    rows = _rows(tmp_path, wkafl=0.99)
    ahead = next(row for name, row in rows.items() if name.startswith("Table II and Fig. 7"))
    assert ahead.verdict is ClaimVerdict.DIFFERS
    assert "WKAFL 0.990" in ahead.ours


def test_every_reason_belongs_to_a_row():
    keys = {"one", "one order", "five", "ten", "losses", "time", "few", "few order", "gains", "steady", *runs.ABLATIONS}
    assert {key for key, _ in REASONS} <= keys | {"widest", "figures", "t1", "cifar"}
