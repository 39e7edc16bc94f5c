"""ASAFL's programme and verdicts, on figures that are made up."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from matplotlib.figure import Figure

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
    told,
    usage,
    within_budget,
)
from testbed.papers.asafl.verdicts import both, faster, higher, keeps, rises, rises_and_falls
from testbed.papers.framework.chapter import ClaimVerdict
from testbed.papers.framework.job import PaperRun
from testbed.papers.framework.result import Result
from testbed.profile.schema import DeviceProfile
from tests.testbed.papers import parts

CHOSEN = {CALIBRATED: 0.08, SAFL: 0.2, MU: 0.03}


def result(
    folder: Path, job: PaperRun, *, scores: Sequence[float], seconds: float = 30.0, degree: int = 2, waited: float = 0.0
) -> Result:
    """A run with these scores at equal distances, a round between any two, and one more that did not end."""
    place = folder / job.name
    place.mkdir()
    moments = [seconds * i / (len(scores) - 1) for i in range(len(scores))]
    _write(
        place / "metrics.csv", [{"time_s": at, "accuracy": score} for at, score in zip(moments, scores, strict=True)]
    )
    rounds = [
        {
            "time_s": at,
            "latency_s": seconds / len(scores),
            "mean_staleness": i % 3,
            "new_updates": degree,
            "time_usage": at / 30,
        }
        for i, at in enumerate(moments[1:])
    ]
    _write(place / "versions.csv", rounds)
    summary = {"versions": len(rounds), "seconds": seconds + waited, "fidelity": {"verdict": "PASS"}}
    (place / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    return Result(job=job, folder=place, took=1.0, attempts=1)


def _write(path: Path, rows: Sequence[Mapping[str, float]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def rising(to: float, steps: int = 20) -> list[float]:
    return [to * min(1.0, 2 * i / steps) for i in range(steps + 1)]


def job(name: str) -> PaperRun:
    return PaperRun(name=name, profile="asafl/small.toml", seed=1)


def test_the_programme_is_sound() -> None:
    parts.check(PAPER)


def test_the_searches_have_the_same_values_for_both_rules() -> None:
    calibrated, safl, mu = PAPER.searches
    assert calibrated.values == safl.values
    assert [len(search.jobs(search.values[0])) for search in (calibrated, safl)] == [1, 1]
    assert mu.key == "strategy.mu"


def test_only_where_its_own_rate_is_another_safl_is_run_twice() -> None:
    apart, same = ({job.name for job in PAPER.jobs(CHOSEN | {SAFL: rate})} for rate in (0.2, 0.08))
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


def test_a_job_at_the_small_scale_computes_as_long_as_in_the_paper() -> None:
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
    assert faster([[9.0, 0.9, 0.9]]) is ClaimVerdict.DIFFERS  # one seed alone
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


def test_a_budget_that_is_kept_is_better_than_any_that_is_not() -> None:
    assert sorted([1.3, 0.7, 1.0, 1.1], key=within_budget) == [1.3, 1.1, 0.7, 1.0]


def test_who_does_not_reach_the_target_has_taken_all_of_its_seconds(tmp_path: Path) -> None:
    quick = result(tmp_path, job("quick"), scores=[0.0, 0.9, 0.9])
    never = result(tmp_path, job("never"), scores=[0.0, 0.1, 0.2])
    assert ratios({1: quick}, {1: never}) == [2.0]
    assert ratios({1: never}, {1: quick}) == [0.5]
    assert ratios({1: never}, {1: never}) == ratios({1: quick}, {2: never}) == []
    assert (level(never), usage(never)) == (0.2, 1.0)
    assert told([10.0, 12.0]) == "11.0 s (10.0 to 12.0)"
    assert told([10.0, None]) == "10.0 s (10.0 to 10.0), not with 1 of 2 seeds"
    assert told([None]) == "never"


def test_a_round_that_does_not_end_counts_as_long_as_it_was_waited_for(tmp_path: Path) -> None:
    assert longest_round(result(tmp_path, job("short"), scores=rising(0.9), waited=0.1)) == pytest.approx(30 / 21)
    assert longest_round(result(tmp_path, job("faded"), scores=rising(0.9), waited=8.0)) == pytest.approx(8)


def test_runs_that_do_not_last_equally_long_are_compared_when_the_first_is_over(tmp_path: Path) -> None:
    short = {1: result(tmp_path, job("first"), scores=[0.0, 0.5, 0.6], seconds=2.0)}
    long = {1: result(tmp_path, job("second"), scores=[0.0, 0.2, 0.4, 0.9, 0.9], seconds=4.0)}
    assert levels_together({"a": short, "b": long}) == {"a": {1: 0.6}, "b": {1: 0.4}}
    assert levels_together({"a": short, "b": {}}) == {"a": {}, "b": {}}, "with no seed in common"


def test_a_run_that_a_fade_holds_up_goes_on_to_its_end_with_what_it_has(tmp_path: Path) -> None:
    held = {1: result(tmp_path, job("held"), scores=[0.0, 0.5, 0.6], seconds=2.0, waited=8.0)}
    other = {1: result(tmp_path, job("other"), scores=[0.0, 0.2, 0.4, 0.9, 0.9], seconds=4.0)}
    assert level(held[1]) == 0.6
    assert levels_together({"a": held, "b": other}) == {"a": {1: 0.6}, "b": {1: 0.9}}, "after four seconds, not two"
    assert ratios(other, held) == [pytest.approx(10 / 3)], "it did not get to the target in all of its ten seconds"


def test_a_chapter_without_results_says_so() -> None:
    chapter = PAPER.chapter({}, parts.chosen(PAPER))
    assert {row.verdict for row in chapter.rows} == {ClaimVerdict.MISSING, ClaimVerdict.UNTESTED}
    assert all(row.ours == "–" for row in chapter.rows)
    assert [list(grid.lines) for grid in chapter.grids] == [[], []]
    assert not chapter.pictures


def test_a_chapter_of_made_up_results(tmp_path: Path) -> None:
    heights = {"calibrated": 0.95, "ascending": 0.99, "lyapunov": 0.97, "safl-sc-7": 0.9, "synchronous": 0.5}
    results = {
        job.name: result(
            tmp_path, job, scores=rising(next((heights[each] for each in heights if each in job.name), 0.85))
        )
        for job in PAPER.jobs(CHOSEN)
    }
    chapter = PAPER.chapter(results, CHOSEN)
    verdicts = {(row.where, row.claim.split()[0]): row.verdict for row in chapter.rows}
    assert ClaimVerdict.MISSING not in verdicts.values()
    assert verdicts["Fig. 2 (a)", "at"] is ClaimVerdict.DIRECTION
    assert verdicts["Fig. 4 (a)", "ascending"] in (ClaimVerdict.DIRECTION, ClaimVerdict.DIFFERS)
    assert verdicts["Fig. 4 (b)", "a"] is ClaimVerdict.DIFFERS  # every round is as long as any other
    first, second = chapter.grids
    assert len(first.lines) == 6 + 3 + 1
    assert len(second.lines) == 8
    figure = Figure()
    chapter.pictures[0].draw(figure)
    assert [len(axes.lines) for axes in figure.axes] == [6, 3, 5]
    assert AsaflResults(results).own().keys() == set(SEEDS)
