"""Devices that were dealt too little, and splits of users that deal what cannot be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from testbed.common.errors import ProfileError
from testbed.common.parameters import ParameterError
from testbed.learning.data.dataset import Indices, Subset
from testbed.learning.splits import SPLITS, checked
from testbed.learning.splits.minimum import fill
from testbed.learning.splits.split import Split
from tests.testbed.learning.splits.parts import classes, rng


def shards(*given: list[int]) -> list[Indices]:
    return [np.array(each, np.int64) for each in given]


def filled(least: int, *given: list[int]) -> list[list[int]]:
    return [shard.tolist() for shard in fill(shards(*given), least)]


def test_an_empty_device_gets_the_first_sample_of_the_richest() -> None:
    assert filled(1, [5], [], [9, 2, 7], [1, 3]) == [[5], [9], [2, 7], [1, 3]]


def test_of_two_that_have_most_the_first_gives() -> None:
    assert filled(1, [], [4, 5], [6, 7]) == [[4], [5], [6, 7]]


def test_who_has_most_is_asked_anew_for_each_sample() -> None:
    assert [len(shard) for shard in filled(3, [], [*range(6)], [*range(6, 11)])] == [3, 4, 4]


def test_what_is_given_is_spread_over_the_share_of_the_giver() -> None:
    [got, _] = filled(4, [], [*range(100)])
    assert got == pytest.approx([0, 25, 50, 75], abs=3)


def test_nobody_gives_until_they_are_short_themselves() -> None:
    assert [len(shard) for shard in filled(4, [1], [], [*range(2, 13)])] == [4, 4, 4]


def test_shares_that_are_large_enough_stay_as_they_are() -> None:
    assert filled(2, [3, 1], [2, 0]) == [[3, 1], [2, 0]]


@dataclass(kw_only=True)
class Own(Split):
    """What a user might write."""

    gives: Any = None

    def assign(self, part: Subset, devices: int, rng: np.random.Generator) -> list[Indices]:
        given: list[Indices] = self.gives
        return given


@dataclass(kw_only=True)
class Incomplete(Split):
    """Deals nothing."""


@pytest.mark.parametrize(
    ("gives", "told"),
    [
        ([[0]], "Own.deal gave 1 shares for 2 devices; it must give one for each"),
        ([[0], []], "Own.deal gave device 1 an array of shape (0,); it must be a list of at least one sample number"),
        (
            [[[0, 1]], [2]],
            "Own.deal gave device 0 an array of shape (1, 2); it must be a list of at least one sample number",
        ),
        ([3, [2]], "Own.deal gave device 0 an array of shape (); it must be a list of at least one sample number"),
        ([[0.5], [2]], "Own.deal gave device 0 numbers of type float64; sample numbers are whole"),
        ([[0], [10]], "Own.deal gave device 1 the sample number 10; they go from 0 to 9"),
        ([[0], [-1, 3]], "Own.deal gave device 1 the sample number -1; they go from 0 to 9"),
        ([[0], [3, 3]], "Own.deal gave device 1 1 of its samples twice; each may be there once"),
    ],
)
def test_what_a_users_split_does_wrong_is_told(gives: object, told: str) -> None:
    with pytest.raises(ParameterError) as caught:
        checked.assign_checked(Own(gives=gives), classes(10), 2, rng())
    assert (caught.value.key, caught.value.problem) == ("name", f"does not fit: {told}")


def test_what_a_users_split_gives_in_disorder_is_put_in_order() -> None:
    given = checked.assign_checked(Own(gives=([3, 1], np.array([9, 0], np.int32))), classes(10), 2, rng())
    assert [shard.tolist() for shard in given] == [[1, 3], [0, 9]]
    assert {shard.dtype for shard in given} == {np.dtype(np.int64)}


def test_a_users_own_split_can_be_named() -> None:
    assert SPLITS.find(f"{__name__}:Own", "x.toml", "task.split") is Own
    with pytest.raises(ProfileError, match="it must define deal"):
        SPLITS.find(f"{__name__}:Incomplete", "x.toml", "task.split")
