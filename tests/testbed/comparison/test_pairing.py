"""Pairs of runs with the same conditions, and the differences between groups."""

from __future__ import annotations

from pathlib import Path

from testbed.comparison.pairing import SEED, TRACE, Conditions, conditions_of, differences
from testbed.comparison.quantities import ComparisonRow
from tests.testbed.comparison.written import read, write


def row(group: str, seconds: float | None) -> ComparisonRow:
    """A run of which the differences use only the seconds and the final score."""
    return ComparisonRow(
        run="run",
        group=group,
        seed=1,
        fidelity=None,
        final=0.5,
        best=0.5,
        seconds_to_target=seconds,
        joules_to_target=None,
        bytes_to_target=None,
        energy_j=None,
        wasted_j=None,
        versions=1,
        updates_per_second=None,
        mean_staleness=None,
    )


def of(*paths: Path) -> list[Conditions]:
    return conditions_of(read(*paths))


def test_runs_with_one_seed_and_fleet_have_the_same_conditions(tmp_path: Path) -> None:
    found = of(
        *(write(tmp_path / f"{strategy}{seed}", strategy, seed=seed) for seed in (1, 2) for strategy in ("x", "y"))
    )
    assert {each[0] for each in found} == {SEED}
    assert (found[0] == found[1], found[2] == found[3], found[0] == found[2]) == (True, True, False)


def test_another_fleet_has_other_conditions(tmp_path: Path) -> None:
    devices = [{"name": "a", "count": 1, "drop": 0.25}]
    first, second, third = of(
        write(tmp_path / "one"),
        write(tmp_path / "drops", profile={"devices": devices}),
        write(tmp_path / "named", device="b"),
    )
    assert first != second
    assert first != third


def test_replays_of_one_run_share_its_conditions(tmp_path: Path) -> None:
    recorded = write(tmp_path / "recorded", "x")
    replays = [write(tmp_path / strategy, strategy, replays=recorded / "trace.jsonl") for strategy in ("y", "z")]
    alone = write(tmp_path / "alone", "w")
    first, second, third, other = of(recorded, *replays, alone)
    assert first == second == third == (TRACE, recorded.resolve(), 1)
    assert other[0] == SEED  # the same seed, but no run replayed it


def test_a_replay_does_not_have_the_conditions_of_its_seed(tmp_path: Path) -> None:
    first, second = of(write(tmp_path / "x", "x"), write(tmp_path / "y", "y", replays=tmp_path / "elsewhere"))
    assert first != second


def test_replays_of_one_run_with_several_seeds_are_several_pairs(tmp_path: Path) -> None:
    found = of(*(write(tmp_path / f"{seed}", seed=seed, replays=tmp_path / "r") for seed in (1, 2)))
    assert found[0] != found[1]


def test_differences_need_pairs_with_both_values() -> None:
    conditions: list[Conditions] = [(SEED, 1), (SEED, 2), (SEED, 3), (SEED, 1), (SEED, 2), (SEED, 4)]
    seconds = [1.0, 2.0, 9.0, 4.0, None, 1.0]
    rows = [row(group, each) for group, each in zip("xxxyyy", seconds, strict=True)]
    first, final = differences(rows, conditions)
    assert (first.first, first.second, first.quantity, first.by) == ("x", "y", "seconds_to_target", SEED)
    assert (first.pairs, first.mean, first.p, first.smallest_p) == (1, -3.0, 1.0, 1.0)
    assert (final.quantity, final.pairs, final.mean, final.p, final.smallest_p) == ("final", 2, 0.0, 1.0, 0.5)


def test_replicas_count_as_one_and_every_two_groups_are_compared() -> None:
    rows = [row("x", 1.0), row("x", 3.0), row("y", 1.0), row("z", 1.0)]
    found = [each for each in differences(rows, [(TRACE, 1)] * 4) if each.quantity == "seconds_to_target"]
    assert [(each.first, each.second, each.mean, each.by) for each in found] == [
        ("x", "y", 1.0, TRACE),
        ("x", "z", 1.0, TRACE),
        ("y", "z", 0.0, TRACE),
    ]


def test_groups_without_common_conditions_have_no_differences() -> None:
    assert list(differences([row("x", 1.0), row("y", 1.0)], [(SEED, 1), (SEED, 2)])) == []
