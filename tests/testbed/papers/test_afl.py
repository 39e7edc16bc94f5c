"""AFL's programme and verdicts."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from msgspec.structs import replace

from testbed.loading import profile_files, profile_loader
from testbed.papers.afl import claims, costs
from testbed.papers.afl import paper as afl
from testbed.papers.afl.afl_rounds import (
    AFL,
    FALLING,
    FRACTIONS,
    SYNC,
    Key,
    Track,
    Tracks,
    drift,
    fluctuation,
    straightness,
    track,
)
from testbed.papers.afl.afl_verdicts import by_limit, by_order, by_share, finite_spread
from testbed.papers.framework.chapter import ClaimVerdict
from testbed.papers.framework.paper_run import PaperRun
from testbed.papers.framework.result import Result
from tests.testbed.papers import parts
from tests.testbed.papers.small import ROUND, leave_run, scored


def run(loss: list[float], seconds: float = 1.0, spread: float = 0.1, to_target_s: float = 1.0) -> Track:
    numbers = range(1, len(loss))
    return Track(
        loss=loss,
        seconds=[seconds * number for number in numbers],
        spread=[spread for _ in numbers],
        waited=[spread * number for number in numbers],
        proxy=[5.0 * number for number in numbers],
        to_target_s=to_target_s,
        to_target_j=10 * to_target_s,
    )


def falling(by: float, rounds: int = 40, start: float = 100.0, floor: float = 0.02) -> list[float]:
    return [max(floor, start * by**number) for number in range(rounds + 1)]


def fleet(task: str, afl_by: float, sync_by: float, falling_by: float = 0.5) -> Tracks:
    found: dict[Key, Track] = {}
    for fraction in FRACTIONS:
        for seed in afl.SEEDS:
            found[Key(task, AFL, fraction, seed)] = run(falling(afl_by), 0.1)
            found[Key(task, SYNC, fraction, seed)] = run(falling(sync_by, 20), 0.5)
            found[Key(task, FALLING, fraction, seed)] = run(falling(falling_by, 20), 0.5)
    return found


# ---- the programme


def test_the_programme_passes_the_common_checks() -> None:
    parts.check(afl.PAPER)


def test_every_strategy_has_its_rounds_and_replays_the_delays_of_afl() -> None:
    paper_runs = {paper_run.name: paper_run for paper_run in afl.PAPER.paper_runs({})}
    recorded, replayed = paper_runs["svm-afl-c0.2-seed3"], paper_runs["svm-sync-fl-c0.2-seed3"]
    assert recorded.experiment().stop.versions == 70 * 2
    assert replayed.experiment().stop.versions == 16
    assert replayed.replays == recorded.name
    assert replayed.experiment().strategy_parameters["fraction"] == 0.2
    assert paper_runs["svm-sync-fl-falling-c0.5-seed3"].experiment().training.lr_schedule == "inverse-sqrt"
    assert replayed.experiment().training.lr_schedule == "constant"
    assert {paper_run.experiment().dilation for paper_run in paper_runs.values() if not paper_run.replays} == {1.0}
    assert paper_runs["svm-sync-fl-c0.9-seed3"].experiment().dilation == 1.5


@pytest.mark.parametrize(
    ("task", "rounds", "epochs", "lr"), [("regression", 400, 50, 0.001), ("svm", 1000, 100, 0.0005)]
)
def test_the_papers_own_settings(task: str, rounds: int, epochs: int, lr: float) -> None:
    experiment = profile_loader.load(profile_files.located(Path(f"afl/{task}.toml")))
    small = profile_loader.load(profile_files.located(Path(f"afl/small-{task}.toml")))
    assert experiment.stop.versions == rounds * 5
    training = experiment.training
    assert (training.epochs, training.batch, training.lr) == (epochs, 32, lr)
    assert sum(group.count for group in experiment.devices) == 10
    for one in (experiment, small):
        assert one.strategy_parameters == {"fraction": 0.5, "alpha": 0.01}
        assert one.task_name == task
    paper_run = small.training
    assert paper_run.epochs * paper_run.lr / paper_run.batch == pytest.approx(epochs * lr / 32)


# ---- a run, round by round


def test_the_loss_of_a_round_is_interpolated_between_scores(tmp_path: Path) -> None:
    folder = leave_run(
        tmp_path / "run",
        [
            scored(0.0, joules=0.0, loss=100.0),
            scored(2.0, joules=8.0, loss=1.0),
            scored(4.0, joules=20.0, loss=0.04),
        ],
        rounds=[
            replace(ROUND, round=1, time_s=1.0, delay_s=0.5, cumulative_delay_s=0.5, energy_proxy_j=3.0),
            replace(ROUND, round=2, time_s=4.0, delay_s=0.25, cumulative_delay_s=0.75, energy_proxy_j=7.0),
        ],
    )
    paper_run = PaperRun(name="one", profile="afl/small-svm.toml", seed=1)
    result = Result(paper_run=paper_run, folder=folder, took=1.0, attempts=1)
    found = track(result, target=0.05)
    assert found.loss == pytest.approx([100.0, 10.0, 0.04])  # half way, in the logarithm
    assert (found.seconds, found.waited, found.proxy) == ([1.0, 4.0], [0.5, 0.75], [3.0, 7.0])
    assert (found.to_target_s, found.to_target_j) == (4.0, 20.0)
    assert found.until(10.5) == 1
    assert found.until(0.01) == math.inf
    assert found.seconds_per_round == 2.0
    assert drift(found) == 0.5
    assert track(result, target=0.01).to_target_s == math.inf


def test_a_loss_that_falls_steadily_does_not_fluctuate() -> None:
    assert fluctuation(run(falling(0.9, 20))) == pytest.approx(0.0, abs=1e-9)
    assert fluctuation(run([1.0, 2.0] * 10)) == pytest.approx(2 * math.log(2))


def test_a_line_is_straight() -> None:
    assert straightness([1.0, 2.0, 3.0, 4.0]) == pytest.approx(1.0)
    assert straightness([1.0, 4.0, 1.0, 4.0, 1.0]) < 0.1


# ---- verdicts


def test_verdicts() -> None:
    assert by_share([True] * 9) is ClaimVerdict.AGREES
    assert by_share([True] * 8 + [False]) is ClaimVerdict.DIRECTION
    assert by_share([True, False]) is ClaimVerdict.DIFFERS
    assert by_share([]) is ClaimVerdict.MISSING
    assert by_order([[3.0, 4.0], [2.0], [1.0]]) is ClaimVerdict.AGREES
    assert by_order([[3.0], [1.0], [2.0]]) is ClaimVerdict.DIRECTION
    assert by_order([[1.0], [2.0], [3.0]]) is ClaimVerdict.DIFFERS
    assert by_order([[1.0], [], [3.0]]) is ClaimVerdict.MISSING
    assert [by_limit(value, 0.9, 0.5) for value in (0.95, 0.6, 0.1, None)] == [
        ClaimVerdict.AGREES,
        ClaimVerdict.DIRECTION,
        ClaimVerdict.DIFFERS,
        ClaimVerdict.MISSING,
    ]


def test_targets_that_were_never_reached_are_counted() -> None:
    assert finite_spread([2.0, 4.0, math.inf]) == "3 (2 to 4) (never in 1 of 3)"
    assert finite_spread([math.inf]) == "– (never in 1 of 1)"


def test_sync_fl_is_ahead_at_first_and_afl_is_equal_at_the_end() -> None:
    tracks = fleet("regression", afl_by=0.7, sync_by=0.5)
    assert claims.early(tracks, "regression", "").verdict is ClaimVerdict.AGREES
    assert claims.comparable(tracks).verdict is ClaimVerdict.DIRECTION  # the number of rounds differs
    assert claims.level(tracks).verdict is ClaimVerdict.AGREES
    assert "Sync-FL is lower in 9 of 9 pairs" in claims.early(tracks, "regression", "").ours


def test_afl_is_ahead_at_first() -> None:
    tracks = fleet("regression", afl_by=0.4, sync_by=0.6)
    assert claims.early(tracks, "regression", "").verdict is ClaimVerdict.DIFFERS
    slow = fleet("regression", afl_by=0.95, sync_by=0.5)
    assert claims.comparable(slow).verdict is ClaimVerdict.DIFFERS
    assert "never in 9 of 9" in claims.comparable(slow).ours


@pytest.mark.parametrize(
    ("falling_by", "verdict"), [(0.5, ClaimVerdict.AGREES), (0.63, ClaimVerdict.DIRECTION), (0.7, ClaimVerdict.DIFFERS)]
)
def test_the_part_of_the_advantage_that_is_due_to_the_rate(falling_by: float, verdict: ClaimVerdict) -> None:
    tracks = {**fleet("regression", 0.68, 0.4, falling_by), **fleet("svm", 0.68, 0.4, falling_by)}
    row = claims.cause(tracks)
    assert row.verdict is verdict
    assert row.reason


def test_time_to_the_target() -> None:
    tracks = {
        key: run(falling(0.7), to_target_s=(1.0 if key.fraction > 0.2 else 9.0) if key.strategy == AFL else 3.0)
        for key in fleet("svm", 0.7, 0.5)
    }
    row = costs.cheaper(tracks, "seconds", lambda track: track.to_target_s)
    assert row.verdict is ClaimVerdict.DIRECTION
    assert "C = 0.2: 3.00, C = 0.5: 0.33, C = 0.9: 0.33; fewer in 6 of 9 pairs" in row.ours
    assert row.reason


def test_a_run_that_never_reaches_the_target_has_lost() -> None:
    keys = [Key("svm", strategy, 0.5, 1) for strategy in (AFL, SYNC)]
    for afl_s, sync_s, verdict in (
        (1.0, math.inf, ClaimVerdict.AGREES),
        (math.inf, 1.0, ClaimVerdict.DIFFERS),
        (math.inf, math.inf, ClaimVerdict.MISSING),
    ):
        runs = [run(falling(0.7), to_target_s=seconds) for seconds in (afl_s, sync_s)]
        row = costs.cheaper(dict(zip(keys, runs, strict=True)), "joules", lambda track: track.to_target_j)
        assert row.verdict is verdict


def test_a_larger_fraction_takes_fewer_rounds() -> None:
    rates = {0.2: 0.8, 0.5: 0.7, 0.9: 0.6}
    tracks = {key: run(falling(rates[key.fraction])) for key in fleet("svm", 0.7, 0.5)}
    row = claims.larger(tracks, "svm", "Fig. 9")
    assert row.verdict is ClaimVerdict.AGREES
    assert not row.reason


def test_a_chapter_without_runs() -> None:
    chapter = afl.PAPER.chapter({}, {})
    assert {row.verdict for row in chapter.rows} == {ClaimVerdict.MISSING}
    assert not any(row.reason for row in chapter.rows)
    assert not chapter.tables
    assert not chapter.figures
