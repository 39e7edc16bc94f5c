"""ASAFL's programme and verdicts, on invented results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from msgspec.structs import replace

from testbed.loading import profile_files, profile_loader
from testbed.papers.asafl.paper import PAPER
from testbed.papers.asafl.runs import (
    CALIBRATED,
    MU,
    SAFL,
    SEEDS,
    AsaflResults,
    level,
    levels_together,
    longest_round,
    ratios,
    seconds_text,
    usage,
    within_budget,
)
from testbed.papers.asafl.verdicts import both, faster, higher, keeps, rises, rises_and_falls
from testbed.papers.framework.chapter import ClaimVerdict
from testbed.papers.framework.paper_run import PaperRun
from testbed.papers.framework.result import Result
from testbed.profile.schema import DeviceProfile
from tests.testbed.papers import parts
from tests.testbed.papers.small import VERSION, leave_run, scored

CHOSEN = {CALIBRATED: 0.08, SAFL: 0.2, MU: 0.03}


def result(
    folder: Path,
    paper_run: PaperRun,
    *,
    scores: Sequence[float],
    seconds: float = 30.0,
    degree: int = 2,
    waited: float = 0.0,
) -> Result:
    """A run with these scores at equal intervals, a round between each two, and an unfinished one."""
    moments = [seconds * i / (len(scores) - 1) for i in range(len(scores))]
    rounds = [
        replace(
            VERSION,
            version=i + 1,
            time_s=at,
            latency_s=seconds / len(scores),
            mean_staleness=float(i % 3),
            new_updates=degree,
            time_usage=at / 30,
        )
        for i, at in enumerate(moments[1:])
    ]
    place = leave_run(
        folder / paper_run.name,
        [scored(at, version=i, accuracy=score) for i, (at, score) in enumerate(zip(moments, scores, strict=True))],
        versions=rounds,
        seconds=seconds + waited,
    )
    return Result(paper_run=paper_run, folder=place, took=1.0, attempts=1)


def rising(to: float, steps: int = 20) -> list[float]:
    return [to * min(1.0, 2 * i / steps) for i in range(steps + 1)]


def paper_run(name: str) -> PaperRun:
    return PaperRun(name=name, profile="asafl/small.toml", seed=1)


def test_the_programme_passes_the_common_checks() -> None:
    parts.check(PAPER)


def test_the_searches_have_the_same_values_for_both_strategies() -> None:
    calibrated, safl, mu = PAPER.searches
    assert calibrated.values == safl.values
    assert [len(search.paper_runs(search.values[0])) for search in (calibrated, safl)] == [1, 1]
    assert mu.key == "strategy.mu"


def test_safl_is_run_twice_only_if_its_own_rate_differs() -> None:
    apart, same = ({paper_run.name for paper_run in PAPER.paper_runs(CHOSEN | {SAFL: rate})} for rate in (0.2, 0.08))
    assert {name for name in apart - same if "own-rate" in name} == apart - same
    assert len(apart - same) == len(SEEDS)


@pytest.mark.parametrize(("name", "model", "parameters"), [("mnist", "lenet5", 0.1), ("cifar10", "vgg11", 10.0)])
def test_the_profiles_at_the_papers_scale_have_the_papers_settings(name: str, model: str, parameters: float) -> None:
    experiment = profile_loader.load(profile_files.located(Path(f"asafl/{name}.toml")))
    assert sum(group.count for group in experiment.devices) == 50
    assert experiment.cell is not None
    assert (experiment.cell.radius, experiment.cell.bandwidth, experiment.cell.power) == (500, 10e6, 10)
    assert (experiment.cell.noise, experiment.cell.gain) == (1e-12, -30)
    assert experiment.task_parameters["model"] == model
    training = experiment.training
    assert (training.steps, training.batch, training.lr) == (8, 128, 0.01)
    strategy = experiment.strategy_parameters
    assert strategy["budget"] == pytest.approx(parameters * strategy["rounds"])
    assert strategy["mu"] == 10


def test_a_small_job_computes_as_long_as_in_the_paper() -> None:
    experiment = profile_loader.load(profile_files.located(Path("asafl/small.toml")))
    training = experiment.training
    for group in experiment.devices:
        assert isinstance(group.profile, DeviceProfile)
        assert isinstance(group.profile.cycles_per_sample, int | float)
        cycles = training.steps * training.batch * group.profile.cycles_per_sample
        assert cycles == pytest.approx(8 * 128 * 124274.5, rel=1e-4)


def test_accuracies_agree_in_direction_differ_or_are_missing() -> None:
    high, low = {1: 0.9, 2: 0.8, 3: 0.9}, {1: 0.8, 2: 0.82, 3: 0.8}
    assert higher([(high, low)]) is ClaimVerdict.DIRECTION
    assert higher([(high, low)], ClaimVerdict.AGREES) is ClaimVerdict.AGREES
    assert higher([(high, low), (low, high)]) is ClaimVerdict.DIFFERS
    assert higher([(high, high)]) is ClaimVerdict.DIFFERS
    assert higher([(high, {})]) is higher([]) is ClaimVerdict.MISSING


def test_times_agree_in_direction_differ_or_are_missing() -> None:
    assert faster([[2.0, 3.0, 0.9]]) is ClaimVerdict.DIRECTION
    assert faster([[2.0, 3.0, 0.9], [1.0, 1.0, 1.0]]) is ClaimVerdict.DIFFERS
    assert faster([[9.0, 0.9, 0.9]]) is ClaimVerdict.DIFFERS  # only one seed
    assert faster([[]]) is faster([]) is ClaimVerdict.MISSING


def test_shapes_agree_differ_or_are_missing() -> None:
    assert rises([[1.0, 1.5], [1.0, 1.2], [1.0, 0.9]]) is ClaimVerdict.AGREES
    assert rises([[1.0, 1.05]]) is ClaimVerdict.DIFFERS
    assert rises_and_falls([[1.0, 3.0, 2.0]]) is ClaimVerdict.AGREES
    assert rises_and_falls([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]) is ClaimVerdict.DIFFERS
    assert keeps([0.9, 1.01]) is ClaimVerdict.AGREES
    assert keeps([0.9, 1.1]) is ClaimVerdict.DIFFERS
    assert rises([]) is rises_and_falls([]) is keeps([]) is ClaimVerdict.MISSING
    assert both(ClaimVerdict.AGREES, ClaimVerdict.DIRECTION) is ClaimVerdict.DIRECTION
    assert both(ClaimVerdict.DIFFERS, ClaimVerdict.MISSING) is ClaimVerdict.MISSING


def test_a_kept_budget_scores_higher_than_an_exceeded_one() -> None:
    assert sorted([1.3, 0.7, 1.0, 1.1], key=within_budget) == [1.3, 1.1, 0.7, 1.0]


def test_a_run_that_does_not_reach_the_target_counts_with_its_duration(tmp_path: Path) -> None:
    quick = result(tmp_path, paper_run("quick"), scores=[0.0, 0.9, 0.9])
    never = result(tmp_path, paper_run("never"), scores=[0.0, 0.1, 0.2])
    assert ratios({1: quick}, {1: never}) == [2.0]
    assert ratios({1: never}, {1: quick}) == [0.5]
    assert ratios({1: never}, {1: never}) == ratios({1: quick}, {2: never}) == []
    assert (level(never), usage(never)) == (0.2, 1.0)
    assert seconds_text([10.0, 12.0]) == "11.0 s (10.0 to 12.0)"
    assert seconds_text([10.0, None]) == "10.0 s (10.0 to 10.0), not with 1 of 2 seeds"
    assert seconds_text([None]) == "never"


def test_an_unfinished_round_counts_with_its_duration(tmp_path: Path) -> None:
    assert longest_round(result(tmp_path, paper_run("short"), scores=rising(0.9), waited=0.1)) == pytest.approx(30 / 21)
    assert longest_round(result(tmp_path, paper_run("faded"), scores=rising(0.9), waited=8.0)) == pytest.approx(8)


def test_runs_of_different_duration_are_compared_at_the_first_end(tmp_path: Path) -> None:
    short = {1: result(tmp_path, paper_run("first"), scores=[0.0, 0.5, 0.6], seconds=2.0)}
    long = {1: result(tmp_path, paper_run("second"), scores=[0.0, 0.2, 0.4, 0.9, 0.9], seconds=4.0)}
    assert levels_together({"a": short, "b": long}) == {"a": {1: 0.6}, "b": {1: 0.4}}
    assert levels_together({"a": short, "b": {}}) == {"a": {}, "b": {}}, "with no seed in common"


def test_a_run_that_a_fade_stops_keeps_its_accuracy_until_its_end(tmp_path: Path) -> None:
    stopped = {1: result(tmp_path, paper_run("stopped"), scores=[0.0, 0.5, 0.6], seconds=2.0, waited=8.0)}
    other = {1: result(tmp_path, paper_run("other"), scores=[0.0, 0.2, 0.4, 0.9, 0.9], seconds=4.0)}
    assert level(stopped[1]) == 0.6
    assert levels_together({"a": stopped, "b": other}) == {"a": {1: 0.6}, "b": {1: 0.9}}, "after four seconds, not two"
    assert ratios(other, stopped) == [pytest.approx(10 / 3)], "it did not reach the target in its ten seconds"


def test_a_chapter_without_results_says_so() -> None:
    chapter = PAPER.chapter({}, parts.chosen(PAPER))
    assert {row.verdict for row in chapter.rows} == {ClaimVerdict.MISSING, ClaimVerdict.UNTESTED}
    assert all(row.ours == "–" for row in chapter.rows)
    assert [list(grid.lines) for grid in chapter.tables] == [[], []]
    assert not chapter.figures


def test_a_chapter_of_invented_results(tmp_path: Path) -> None:
    heights = {"calibrated": 0.95, "ascending": 0.99, "lyapunov": 0.97, "safl-sc-7": 0.9, "synchronous": 0.5}
    results = {
        paper_run.name: result(
            tmp_path,
            paper_run,
            scores=rising(next((heights[each] for each in heights if each in paper_run.name), 0.85)),
        )
        for paper_run in PAPER.paper_runs(CHOSEN)
    }
    chapter = PAPER.chapter(results, CHOSEN)
    verdicts = {(row.where, row.claim.split()[0]): row.verdict for row in chapter.rows}
    assert ClaimVerdict.MISSING not in verdicts.values()
    assert verdicts["Fig. 2 (a)", "at"] is ClaimVerdict.DIRECTION
    assert verdicts["Fig. 4 (a)", "ascending"] in (ClaimVerdict.DIRECTION, ClaimVerdict.DIFFERS)
    assert verdicts["Fig. 4 (b)", "rounds"] is ClaimVerdict.DIFFERS  # all rounds are equally long
    first, second = chapter.tables
    assert len(first.lines) == 6 + 3 + 1
    assert len(second.lines) == 8
    figure = Figure()
    chapter.figures[0].draw(figure)
    assert [len(axes.lines) for axes in figure.axes] == [6, 3, 5]
    assert AsaflResults(results).own().keys() == set(SEEDS)
