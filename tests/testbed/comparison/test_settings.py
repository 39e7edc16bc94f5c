"""The labels of groups, and notes about differences that are not in the labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed.comparison.settings import labels
from tests.testbed.comparison.written import PROFILE, read, write


def labelled(folder: Path, *tables: dict[str, Any]) -> tuple[list[str], list[str]]:
    return labels(read(*(write(folder / str(number), **table) for number, table in enumerate(tables))))


def training(**changes: Any) -> dict[str, Any]:
    return {"training": PROFILE["training"] | changes}


def test_seeds_of_a_strategy_are_one_group(tmp_path: Path) -> None:
    other = {"name": "another", "dilation": 2.5, "compress": True}
    assert labelled(tmp_path, {"seed": 1}, {"seed": 2, "profile": other}) == (["fedavg", "fedavg"], [])


def test_strategies_have_their_names_as_labels(tmp_path: Path) -> None:
    tables: list[dict[str, Any]] = [{}, {"strategy": "fedasync", "parameters": {"alpha": 0.5, "damping": "hinge"}}]
    assert labelled(tmp_path, *tables) == (["fedavg", "fedasync"], [])


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({"parameters": {"alpha": 0.5}}, {"parameters": {"alpha": 0.9}}, ["fedavg (alpha=0.5)", "fedavg (alpha=0.9)"]),
        ({}, {"profile": training(lr=0.05)}, ["fedavg (lr=0.1)", "fedavg (lr=0.05)"]),
        (
            {"parameters": {"alpha": 0.5}},
            {"parameters": {"alpha": 0.9}, "profile": {"task": {"name": "digits", "alpha": 0.1}}},
            ["fedavg (strategy.alpha=0.5, task.alpha=0.5)", "fedavg (strategy.alpha=0.9, task.alpha=0.1)"],
        ),
        ({}, {"profile": training(momentum=0.5)}, ["fedavg (momentum=unset)", "fedavg (momentum=0.5)"]),
        ({}, {"profile": training(lr=0.10000001)}, ["fedavg (lr=0.1)", "fedavg (lr=0.10000001)"]),
        ({}, {"profile": training(lr=0.1234567)}, ["fedavg (lr=0.1)", "fedavg (lr=0.123457)"]),
        ({}, {"profile": training(steps=4.0, lr=0.2)}, ["fedavg (lr=0.1)", "fedavg (lr=0.2)"]),
        ({}, {"replays": Path("/r")}, ["fedavg (replay=none)", "fedavg (replay=schedule)"]),
    ],
)
def test_differences_within_a_strategy_are_in_the_label(
    tmp_path: Path, one: dict[str, Any], other: dict[str, Any], expected: list[str]
) -> None:
    assert labelled(tmp_path, one, other | {"seed": 2}) == (expected, [])


def test_of_many_differences_only_sufficient_ones_are_in_the_label(tmp_path: Path) -> None:
    other = [{"name": "b", "count": 2, "drop": 0.1, "link": "3g", "profile": {"seconds_per_sample": 0.002}}]
    found, notes = labelled(tmp_path, {}, {"profile": {"devices": other}})
    assert found == ["fedavg (devices[0].name=a)", "fedavg (devices[0].name=b)"]
    assert notes == [
        "fedavg: runs that differ in devices[0].name also differ in devices[0].count,"
        " devices[0].profile.seconds_per_sample, devices[0].drop and 1 more"
    ]


def test_other_differences_between_strategies_are_noted(tmp_path: Path) -> None:
    found, notes = labelled(tmp_path, {}, {"strategy": "fedasync", "profile": training(lr=0.05)})
    assert found == ["fedavg", "fedasync"]
    assert notes == ["not only the strategies differ, but also training.lr (training.lr: fedavg 0.1; fedasync 0.05)"]


def test_a_run_without_a_profile_differs_only_in_known_settings(tmp_path: Path) -> None:
    folders = [write(tmp_path / str(number), seed=number) for number in range(2)]
    (folders[1] / "profile.toml").unlink()
    assert labels(read(*folders)) == (["fedavg", "fedavg"], [])
    folders.append(write(tmp_path / "third", profile=training(lr=0.05)))
    assert labels(read(*folders))[0] == ["fedavg (lr=0.1)", "fedavg (lr=?)", "fedavg (lr=0.05)"]


def test_settings_that_differ_in_the_last_digit_have_different_labels(tmp_path: Path) -> None:
    _, notes = labelled(tmp_path, {}, {"strategy": "fedasync", "profile": training(lr=0.10000001)})
    assert notes[0].endswith("(training.lr: fedavg 0.1; fedasync 0.10000001)")
