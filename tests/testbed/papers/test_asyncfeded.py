"""AsyncFedED's programme and verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure
from msgspec.structs import replace

from testbed.learning.data.dataset import DataSet, Subset
from testbed.learning.tasks.smaller_tasks import SmallFemnist, SmallShakespeare
from testbed.loading import profile_files, profile_loader
from testbed.papers.asyncfeded import measures, runs, verdicts
from testbed.papers.asyncfeded.paper import PAPER
from testbed.papers.framework.chapter import ClaimVerdict
from testbed.papers.framework.paper_run import PaperRun
from testbed.papers.framework.result import Result
from tests.testbed.papers.parts import check, chosen
from tests.testbed.papers.small import VERSION, leave_run, scored

CURVE = ([0.0, 1.0, 2.0, 4.0], [0.1, 0.5, 0.3, 0.9])


def test_the_programme_passes_the_common_checks() -> None:
    check(PAPER)


def test_searches_have_the_same_values_for_each_strategy() -> None:
    assert {search.values for search in PAPER.searches} == {runs.RATES}
    assert [search.name for search in PAPER.searches] == [runs.search_name(strategy) for strategy in runs.CONTENDERS]


def test_compared_strategies_replay_one_recording() -> None:
    paper_runs = {paper_run.name: paper_run for paper_run in PAPER.paper_runs(chosen(PAPER))}
    for p in runs.SUSPENSIONS:
        recorded = runs.name_of("synthetic", runs.RECORDED, 1, p)
        others = [
            paper_runs[runs.name_of("synthetic", strategy, 1, p)]
            for strategy in runs.CONTENDERS
            if strategy != runs.RECORDED
        ]
        assert {paper_run.replays for paper_run in others} == {recorded}
        assert {paper_run.settings["devices[0].suspend"] for paper_run in (*others, paper_runs[recorded])} == {p}


def test_strategies_at_one_rate_keep_their_own_parameters() -> None:
    paper_runs = {paper_run.name: paper_run for paper_run in PAPER.paper_runs(chosen(PAPER))}
    for strategy, contender in runs.CONTENDERS.items():
        experiment = paper_runs[runs.name_of("femnist-one-rate", strategy, 1)].experiment()
        assert experiment.training.lr == runs.ONE_RATE
        assert experiment.strategy_parameters.items() >= contender.settings["femnist"].items()


@pytest.mark.parametrize("task", ["synthetic", "femnist", "shakespeare"])
def test_profiles_have_the_printed_settings(task: str) -> None:
    full = profile_loader.load(profile_files.located(Path(f"asyncfeded/{task}.toml")), [], {})
    small = profile_loader.load(profile_files.located(Path(runs.TASKS[task].profile)), [], {})
    assert full.training.lr == (1.0 if task == "shakespeare" else 0.01)
    assert full.stop.seconds == 300
    assert sum(group.count for group in full.devices) == 10
    for experiment in (full, small):
        assert (experiment.training.steps, experiment.training.momentum) == (10, 0.5)
        assert experiment.training.lr_decay == 0.995
        assert isinstance(experiment.strategy, dict)
        assert experiment.strategy.items() >= runs.CONTENDERS["asyncfeded"].settings[task].items()
        assert {group.suspend for group in experiment.devices} == {runs.USUAL}


def test_small_networks_have_the_layers_of_the_paper() -> None:
    images = _data(torch.zeros(1, 1, 28, 28), classes=62)
    network = SmallFemnist().network(images)
    assert sum(p.numel() for p in network.parameters()) == 26_238
    assert network(torch.zeros(2, 1, 28, 28)).shape == (2, 62)
    text = _data(torch.zeros(1, 80), classes=65)
    network = SmallShakespeare().network(text)
    assert sum(p.numel() for p in network.parameters()) == 16_489
    read, unread = torch.zeros(1, 80, dtype=torch.int64), torch.zeros(1, 80, dtype=torch.int64)
    unread[0, :75] = 7
    assert torch.equal(network(read), network(unread)), "only the last five characters count"
    unread[0, 75] = 7
    assert not torch.equal(network(read), network(unread))


def _data(inputs: torch.Tensor, classes: int) -> DataSet:
    part = Subset(inputs=inputs.numpy(), targets=torch.zeros(1, dtype=torch.int64).numpy())
    return DataSet(train=part, test=part, classes=tuple(map(str, range(classes))))


def test_curves() -> None:
    assert verdicts.sampled(CURVE, 4.0, points=4) == [0.1, 0.5, 0.3, 0.3, 0.9]
    assert verdicts.level(([0.0, 5.0], [0.0, 1.0]), 10.0) == pytest.approx(26 / 51)
    assert verdicts.falls(CURVE, 4.0) == pytest.approx(0.2)
    assert verdicts.falls(([0.0, 5.0], [0.0, 1.0]), 10.0) == 0


def test_the_first_to_reach_a_target() -> None:
    assert verdicts.is_first(1.0, [2.0, None])
    assert not verdicts.is_first(2.0, [1.0, None])
    assert not verdicts.is_first(None, [None, None])
    assert verdicts.highest({"a": 2.0, "b": 1.0}, "a")
    assert not verdicts.highest({"a": 1.0, "b": 1.0}, "a")
    assert verdicts.lowest({"a": 1.0, "b": 2.0}, "a")


def test_verdicts_on_cases() -> None:
    assert verdicts.by_cases([True, True, True], same=True) is ClaimVerdict.AGREES
    assert verdicts.by_cases([True, True, True], same=False) is ClaimVerdict.DIRECTION
    assert verdicts.by_cases([True, True, False], same=True) is ClaimVerdict.DIRECTION
    assert verdicts.by_cases([True, True, False], same=True, overall=False) is ClaimVerdict.DIFFERS, "not in the mean"
    assert verdicts.by_cases([True, False], same=True) is ClaimVerdict.DIFFERS
    assert verdicts.by_cases([], same=True) is ClaimVerdict.MISSING


def test_verdicts_on_suspensions() -> None:
    assert verdicts.stability(0.01, [0.0, 0.0]) is ClaimVerdict.AGREES
    assert verdicts.stability(0.08, [0.2, 0.3]) is ClaimVerdict.DIRECTION
    assert verdicts.stability(0.25, [0.2, 0.3]) is ClaimVerdict.DIFFERS
    assert verdicts.stability(0.01, [None, 0.3]) is ClaimVerdict.MISSING
    assert verdicts.decline([0.2, 0.3]) is ClaimVerdict.AGREES
    assert verdicts.decline([0.06, 0.3]) is ClaimVerdict.DIRECTION
    assert verdicts.decline([0.0, 0.3]) is ClaimVerdict.DIFFERS
    assert verdicts.decline([None, 0.3]) is ClaimVerdict.MISSING


def test_verdicts_on_staleness() -> None:
    assert verdicts.settled([2.5, 3.5, 30.0, 3.0], 3.0) is ClaimVerdict.AGREES
    assert verdicts.settled([0.0, 1.0, 3.5, 9.0, 9.0], 3.0) is ClaimVerdict.DIRECTION
    assert verdicts.settled([9.0, 9.0, 3.0], 3.0) is ClaimVerdict.DIFFERS
    assert verdicts.settled([], 3.0) is ClaimVerdict.MISSING


def test_without_runs_every_row_says_so() -> None:
    chapter = PAPER.chapter({}, chosen(PAPER))
    assert {row.verdict for row in chapter.rows} == {ClaimVerdict.MISSING, ClaimVerdict.UNTESTED}
    for picture in chapter.figures:
        picture.draw(Figure())


def test_a_chapter_of_runs_in_which_asyncfeded_wins(tmp_path: Path) -> None:
    results = {
        paper_run.name: _result(paper_run, tmp_path / paper_run.name) for paper_run in PAPER.paper_runs(chosen(PAPER))
    }
    chapter = PAPER.chapter(results, chosen(PAPER))
    found = [row.verdict for row in chapter.rows]
    assert found[:4] == [ClaimVerdict.AGREES, *[ClaimVerdict.DIRECTION] * 3], "one of the tasks is the paper's own"
    assert found[4:6] == [ClaimVerdict.AGREES, ClaimVerdict.AGREES]
    assert found[6:8] == [ClaimVerdict.AGREES, ClaimVerdict.DIFFERS], "no strategy lost accuracy"
    assert found[8:11] == [ClaimVerdict.AGREES, ClaimVerdict.DIFFERS, ClaimVerdict.AGREES]
    assert chapter.rows[0].ours.startswith("First in 3 of 3 seeds")
    for picture in chapter.figures:
        picture.draw(Figure())


def _result(paper_run: PaperRun, folder: Path) -> Result:
    """AsyncFedED with adaptive K rises twice as fast as all others, and higher; γ is always γ̄."""
    ours = paper_run.strategy == "asyncfeded" and paper_run.settings["strategy.kappa"] > 0
    best, rate = (0.9, 2.0) if ours else (0.8, 1.0)
    leave_run(
        folder,
        [scored(moment / 10, accuracy=min(best, 0.1 + rate * moment / 10 * best / 5)) for moment in range(51)],
        versions=[replace(VERSION, version=number, weight=5 / (3 + 5)) for number in range(1, 5)],
    )
    return Result(paper_run=paper_run, folder=folder, took=1.0, attempts=1)


def test_an_incomplete_comparison_is_omitted(tmp_path: Path) -> None:
    paper_runs = [
        paper_run for paper_run in PAPER.paper_runs(chosen(PAPER)) if paper_run.name.startswith("synthetic-p0-")
    ]
    results = {paper_run.name: _result(paper_run, tmp_path / paper_run.name) for paper_run in paper_runs}
    assert list(measures.sweep(results)) == [0.0]
    del results[runs.name_of("synthetic", "constant", 2, 0.0)]
    assert measures.sweep(results) == {}
    assert measures.runs_of(results, "synthetic", "constant", 0.0) == []
    assert len(measures.runs_of(results, "synthetic", "hinge", 0.0)) == len(runs.SEEDS)
