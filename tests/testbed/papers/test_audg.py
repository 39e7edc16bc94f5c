"""AUDG's programme and verdicts."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from testbed.loading import profile_files, profile_loader
from testbed.papers.audg import theta
from testbed.papers.audg.audg_grid import ACCURACY, DELAYS, LONG, LOSS, SEEDS, TITLES, GridCell, decided, printed, row
from testbed.papers.audg.audg_tables import at_long_steps
from testbed.papers.audg.paper import PAPER
from testbed.papers.audg.verdicts import hits, of_dip, of_fall, of_order, of_predictions, of_signs, of_synchrony
from testbed.papers.framework.chapter import ClaimVerdict
from testbed.papers.framework.paper_run import PaperRun
from testbed.papers.framework.result import Result
from testbed.theory.bounds import MeasuredBounds
from tests.testbed.papers import parts
from tests.testbed.papers.small import leave_run, scored

ETA = {"both strategies": 0.05}


def test_the_programme_passes_the_common_checks() -> None:
    parts.check(PAPER)


@pytest.mark.parametrize("long", [False, True])
def test_every_cell_has_both_strategies_and_all_seeds_under_the_same_delays(long: bool) -> None:
    paper_runs = {paper_run.name: paper_run for paper_run in PAPER.paper_runs(ETA)}
    for cell in (cell for setting in TITLES for cell in row(setting, long=long)):
        for seed in SEEDS:
            audg, psurdg = (paper_runs[cell.run_name(strategy, seed)].experiment() for strategy in ("audg", "psurdg"))
            assert paper_runs[cell.run_name("psurdg", seed)].replays == cell.run_name("audg", seed)
            assert (audg.strategy_name, psurdg.strategy_name) == ("audg", "psurdg")
            assert audg.strategy_parameters == psurdg.strategy_parameters
            assert (audg.training, audg.task_parameters, audg.stop) == (
                psurdg.training,
                psurdg.task_parameters,
                psurdg.stop,
            )
            assert audg.training.lr == pytest.approx(0.05 * (LONG if long else 1))
            assert [group.phi for group in audg.devices] == [pytest.approx(1 / (1 + cell.delay)), 0.5]


def test_both_strategies_have_the_same_share_in_the_search() -> None:
    strategies = [paper_run.strategy for search in PAPER.searches for paper_run in search.all_runs()]
    assert strategies.count("audg") == strategies.count("psurdg") > 0


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("small", [6250] * 4), ("medium", [10000, 5000, 5000, 5000]), ("large", [17500, 2500, 2500, 2500])],
)
def test_profiles_have_the_sizes_of_table_vi(name: str, sizes: list[int]) -> None:
    for profile, scale in ((f"audg/{name}.toml", 1), (f"audg/small-{name}.toml", 1400 / 25000)):
        experiment = profile_loader.load(profile_files.located(Path(profile)), [], {})
        assert experiment.task_parameters["split"]["sizes"] == [size * scale for size in sizes]
        assert (experiment.training.steps, experiment.training.batch) == (1, 0), "along the whole gradient"
        assert experiment.stop.versions == 50


def test_the_profile_of_the_papers_scale_takes_whole_gradients() -> None:
    experiment = profile_loader.load(profile_files.located(Path("audg/iid.toml")), [], {})
    assert experiment.training.batch == 0
    assert experiment.task_parameters["split"] == {"name": "iid", "identical": True, "samples": 25000}


# ---- verdicts


def test_signs() -> None:
    printed = ACCURACY["large"]
    alike = [(value, 2 * value, value) for value in printed]
    assert of_signs(printed, alike) == ClaimVerdict.DIRECTION
    assert of_signs(printed, [tuple(-value for value in values) for values in alike]) == ClaimVerdict.DIFFERS
    assert of_signs(printed, [*alike[:4], (0.01, -0.02, 0.03)]) == ClaimVerdict.DIRECTION, (
        "one mean may differ, undecided"
    )
    assert of_signs(printed, [*alike[:4], (0.01, 0.02, 0.03)]) == ClaimVerdict.DIFFERS, "but not decidedly"
    assert of_signs(printed, [(-0.1, 0.05, 0.01)] * 5) == ClaimVerdict.UNTESTED
    assert of_signs(printed, [(-0.1, -0.2, -0.1), *[(-0.1, 0.05, 0.01)] * 4]) == ClaimVerdict.DIFFERS, "one is enough"
    assert of_signs(printed, [*alike[:4], ()]) == ClaimVerdict.MISSING


def test_a_sign_is_decided_if_all_seeds_have_it() -> None:
    assert [decided(values) for values in ((0.1, 0.2), (-0.1, -0.2), (0.1, -0.1), (0.0, 0.1), ())] == [1, -1, 0, 0, 0]


def test_shapes() -> None:
    falling, waving = [[5.0], [4.0], [3.0], [2.0], [1.0]], [[5.0], [3.0], [4.0], [2.0], [1.0]]
    assert (of_fall(falling), of_fall(waving)) == (ClaimVerdict.AGREES, ClaimVerdict.DIRECTION)
    assert of_fall(falling[::-1]) == ClaimVerdict.DIFFERS
    assert of_dip([[5.0], [4.0], [1.0], [2.0], [3.0]]) == ClaimVerdict.AGREES
    assert of_dip([[5.0], [0.0], [1.0], [2.0], [3.0]]) == ClaimVerdict.DIRECTION
    assert of_dip(falling) == ClaimVerdict.DIFFERS
    assert [of_order(groups) for groups in ([[1], [2], [3]], [[1], [4], [3]], [[3], [2], [1]])] == [
        ClaimVerdict.AGREES,
        ClaimVerdict.DIRECTION,
        ClaimVerdict.DIFFERS,
    ]
    assert [of([[], [1.0]]) for of in (of_fall, of_dip, of_order)] == [ClaimVerdict.MISSING] * 3


def test_synchrony() -> None:
    printed = (0.87, 0.85)
    assert of_synchrony(printed, [[0.88], [0.84]]) == ClaimVerdict.AGREES
    assert of_synchrony(printed, [[0.7], [0.6]]) == ClaimVerdict.DIRECTION
    assert of_synchrony(printed, [[0.84], [0.86]]) == ClaimVerdict.DIFFERS
    assert of_synchrony(printed, [[0.84], []]) == ClaimVerdict.MISSING


def test_predictions_count_where_both_sides_are_decided() -> None:
    signs: dict[object, int] = dict.fromkeys(range(6), 1)
    assert hits({**signs, 0: 0}, {**signs, 1: -1}) == (4, 5)
    assert of_predictions(signs, signs) == ClaimVerdict.AGREES
    assert of_predictions(signs, {**signs, 1: -1}) == ClaimVerdict.DIRECTION
    assert of_predictions(signs, {**dict.fromkeys(range(6), -1)}) == ClaimVerdict.DIFFERS
    assert of_predictions({0: 1}, {0: 1}) == ClaimVerdict.UNTESTED
    assert of_predictions({}, {}) == ClaimVerdict.MISSING


def delayed(tau: float) -> MeasuredBounds:
    return MeasuredBounds(versions=50, devices=4, heard=2, tau=tau, tau2=tau**2, tau3=tau**3)


@pytest.mark.parametrize("tau", [0.5, 1.19, 1.21, 2.0, 2.9, 3.1, 6.6])
def test_theta_at_two_skews_shows_whether_its_sign_depends_on_the_skew(tau: float) -> None:
    two = {theta.theta(delayed(tau), phi) > 0 for phi in (0.0, 1.5)}
    all_of_them = {theta.theta(delayed(tau), phi) > 0 for phi in [0.0, *(1.1**n / 100 for n in range(120))]}
    assert two == all_of_them


@pytest.mark.parametrize("phi", [0.0, 1.5])
def test_theta_changes_its_sign_at_the_break_even(phi: float) -> None:
    # with ηL = 1, that is where τ is such that the break-even is 1
    tau = (3 + 2 * phi**2) / (1 + phi) ** 2
    assert math.isclose(theta.break_even(delayed(tau), phi), 1)
    assert math.isclose(theta.theta(delayed(tau), phi), 0, abs_tol=1e-6)


# ---- the chapter


def test_missing_runs_leave_empty_cells(tmp_path: Path) -> None:
    paper_runs = [
        paper_run for paper_run in PAPER.paper_runs(ETA) if paper_run.strategy == "audg" and "delay5" in paper_run.name
    ]
    grid = at_long_steps({paper_run.name: _result(paper_run, tmp_path / paper_run.name) for paper_run in paper_runs})
    assert [line[2] for line in grid.lines[:4]] == ["0.700 (0.700 to 0.700)", "–", "–", "–"]


def _result(paper_run: PaperRun, folder: Path) -> Result:
    """A run with one score."""
    leave_run(folder, [scored(1.0, version=50, accuracy=0.7, loss=0.5)])
    return Result(paper_run=paper_run, folder=folder, took=1.0, attempts=1)


def test_a_chapter_without_runs() -> None:
    chapter = PAPER.chapter({}, ETA)
    verdicts = {row.verdict for row in chapter.rows}
    assert verdicts == {ClaimVerdict.MISSING, ClaimVerdict.UNTESTED}
    assert sum(row.verdict == ClaimVerdict.UNTESTED for row in chapter.rows) == 1, "omitted on purpose"
    assert not chapter.figures
    assert all(len(line) == len(grid.header) for grid in chapter.tables for line in grid.lines)


def test_the_papers_tables_have_a_number_for_each_delay() -> None:
    for table in (ACCURACY, LOSS):
        assert set(table) == set(TITLES)
        assert all(len(numbers) == len(DELAYS) for numbers in table.values())
    assert GridCell(setting="iid", delay=9).run_name("audg", 2) == "iid-delay9-audg-seed2"
    assert printed(ACCURACY, row("large", long=True)) == [0.0131, 0.0012, -0.0363], "delays 1, 5, 9"
