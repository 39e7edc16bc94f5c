"""Shares below the minimum, and checks of users' own splits."""

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


def test_an_empty_share_gets_the_first_sample_of_the_largest() -> None:
    assert filled(1, [5], [], [9, 2, 7], [1, 3]) == [[5], [9], [2, 7], [1, 3]]


def test_the_first_of_two_largest_shares_gives() -> None:
    assert filled(1, [], [4, 5], [6, 7]) == [[4], [5], [6, 7]]


def test_the_largest_share_is_determined_for_each_sample() -> None:
    assert [len(shard) for shard in filled(3, [], [*range(6)], [*range(6, 11)])] == [3, 4, 4]


def test_samples_are_picked_evenly_from_the_largest_share() -> None:
    [got, _] = filled(4, [], [*range(100)])
    assert got == pytest.approx([0, 25, 50, 75], abs=3)


def test_no_share_falls_below_the_minimum_by_giving() -> None:
    assert [len(shard) for shard in filled(4, [1], [], [*range(2, 13)])] == [4, 4, 4]


def test_shares_that_are_large_enough_are_unchanged() -> None:
    assert filled(2, [3, 1], [2, 0]) == [[3, 1], [2, 0]]


@dataclass(kw_only=True)
class Own(Split):
    """A user's own split."""

    gives: Any = None

    def assign(self, part: Subset, devices: int, rng: np.random.Generator) -> list[Indices]:
        given: list[Indices] = self.gives
        return given


@dataclass(kw_only=True)
class Incomplete(Split):
    """Does not define ``assign``."""


@pytest.mark.parametrize(
    ("gives", "problem"),
    [
        ([[0]], "Own.assign returned 1 lists for 2 devices; it must return one for each"),
        (
            [[0], []],
            "Own.assign returned for device 1 an array of shape (0,); it must be a list of at least one sample number",
        ),
        (
            [[[0, 1]], [2]],
            "Own.assign returned for device 0 an array of shape (1, 2); it must be a list of at least one sample"
            " number",
        ),
        (
            [3, [2]],
            "Own.assign returned for device 0 an array of shape (); it must be a list of at least one sample number",
        ),
        ([[0.5], [2]], "Own.assign returned for device 0 numbers of type float64; sample numbers are whole numbers"),
        ([[0], [10]], "Own.assign returned for device 1 the sample number 10; it must be in 0 to 9"),
        ([[0], [-1, 3]], "Own.assign returned for device 1 the sample number -1; it must be in 0 to 9"),
        ([[0], [3, 3]], "Own.assign returned for device 1 a list with 1 repeated samples; each may occur once"),
    ],
)
def test_an_invalid_result_of_a_users_split_is_refused(gives: object, problem: str) -> None:
    with pytest.raises(ParameterError) as caught:
        checked.assign_checked(Own(gives=gives), classes(10), 2, rng())
    assert (caught.value.key, caught.value.problem) == ("name", f"does not fit: {problem}")


def test_the_result_of_a_users_split_is_sorted() -> None:
    given = checked.assign_checked(Own(gives=([3, 1], np.array([9, 0], np.int32))), classes(10), 2, rng())
    assert [shard.tolist() for shard in given] == [[1, 3], [0, 9]]
    assert {shard.dtype for shard in given} == {np.dtype(np.int64)}


def test_a_users_own_split_can_be_named() -> None:
    assert SPLITS.find(f"{__name__}:Own", "x.toml", "task.split") is Own
    with pytest.raises(ProfileError, match="it must define assign"):
        SPLITS.find(f"{__name__}:Incomplete", "x.toml", "task.split")
