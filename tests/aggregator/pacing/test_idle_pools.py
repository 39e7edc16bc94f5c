"""Drawing idle devices: each sampling by hand, and what holds for all histories of a pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.pacing.idle_pools import IdlePool, PermutedPool, RoundRobinPool, WeightedPool
from tests.properties import examples

POOLS: dict[str, Callable[[], IdlePool]] = {
    "uniform": lambda: WeightedPool(by_samples=False),
    "by samples": lambda: WeightedPool(by_samples=True),
    "permuted": PermutedPool,
    "round-robin": RoundRobinPool,
}
every_pool = pytest.mark.parametrize("make", POOLS.values(), ids=POOLS.keys())


def filled(pool: IdlePool, **samples: int) -> IdlePool:
    for device, count in samples.items():
        pool.add(device, count)
    return pool


# ---- by hand


def seeded() -> np.random.Generator:
    return np.random.default_rng(0)


def test_the_generator_yields_the_points_that_the_tests_assume() -> None:
    points, places = seeded(), seeded()
    assert [int(points.integers(total)) for total in (100, 60, 30)] == [85, 38, 15]
    assert [int(places.integers(total)) for total in (5, 4, 5)] == [4, 2, 2]
    assert seeded().permutation(5).tolist() == [2, 4, 3, 0, 1]


def test_a_uniform_draw_takes_the_place_in_the_order_of_names() -> None:
    pool, random = filled(WeightedPool(by_samples=False), d=7, b=1, e=1, a=9, c=1), seeded()
    assert pool.draw(1, random) == ["e"]  # place 4 of a b c d e
    assert pool.draw(1, random) == ["c"]  # place 2 of a b c d
    filled(pool, c=1, f=1)
    assert pool.draw(1, random) == ["c"]  # place 2 of a b c d f
    assert len(pool) == 4


def test_a_draw_by_samples_takes_the_device_at_a_point_of_all_samples_in_a_row() -> None:
    pool, random = filled(WeightedPool(by_samples=True), d=40, a=10, c=30, b=20), seeded()
    # a has the points 0 to 9, b 10 to 29, c 30 to 59, d 60 to 99
    assert pool.draw(1, random) == ["d"]  # point 85 of 100
    assert pool.draw(1, random) == ["c"]  # point 38 of 60
    assert pool.draw(1, random) == ["b"]  # point 15 of 30


def test_a_permuted_draw_takes_the_first_of_a_permutation_of_the_names() -> None:
    pool = filled(PermutedPool(), d=7, b=1, e=1, a=9, c=1)
    assert pool.draw(3, seeded()) == ["c", "e", "d"]  # the places 2, 4 and 3


def test_a_permutation_is_drawn_even_if_no_device_is_wanted() -> None:
    used, unused = seeded(), seeded()
    assert filled(PermutedPool(), a=1, b=1).draw(0, used) == []
    unused.permutation(2)
    assert used.integers(1000) == unused.integers(1000)


def test_the_devices_of_a_round_robin_take_turns() -> None:
    pool, random = filled(RoundRobinPool(), c=1, a=1, b=1), seeded()
    assert pool.draw(2, random) == ["a", "b"]
    filled(pool, b=1)  # b is back before a
    assert pool.draw(1, random) == ["c"]
    filled(pool, a=1, c=1)
    assert pool.draw(3, random) == ["a", "b", "c"]  # a had its turn before b, b before c


def test_a_device_that_leaves_and_returns_keeps_its_turn() -> None:
    pool, random = filled(RoundRobinPool(), a=1, b=1, c=1), seeded()
    assert pool.draw(1, random) == ["a"]
    pool.discard("b")
    filled(pool, a=1)
    assert pool.draw(1, random) == ["c"]
    filled(pool, b=1, c=1)
    assert pool.draw(2, random) == ["b", "a"]


def test_a_device_that_joins_for_the_first_time_is_next_in_a_round_robin() -> None:
    pool, random = filled(RoundRobinPool(), b=1, c=1), seeded()
    assert pool.draw(2, random) == ["b", "c"]
    filled(pool, b=1, c=1, z=1)
    assert pool.draw(2, random) == ["z", "b"]


# ---- all pools


@every_pool
def test_if_all_devices_are_drawn_the_generator_is_not_used(make: Callable[[], IdlePool]) -> None:
    random = seeded()
    assert filled(make(), b=1, a=2, c=3).draw(7, random) == ["a", "b", "c"]
    assert int(random.integers(5)) == 4


@every_pool
def test_nothing_is_drawn_from_an_empty_pool(make: Callable[[], IdlePool]) -> None:
    pool = filled(make(), a=1)
    pool.discard("a")
    pool.discard("a")
    assert (pool.draw(2, seeded()), len(pool)) == ([], 0)


NAMES = st.sampled_from("abcdefgh")
STEPS = st.lists(st.tuples(st.sampled_from(["add", "discard", "draw"]), NAMES, st.integers(1, 9)), max_size=60)


@every_pool
@examples(200)
@given(steps=STEPS)
def test_a_pool_draws_each_of_its_devices_once(make: Callable[[], IdlePool], steps: list[tuple[str, str, int]]) -> None:
    pool, random, members = make(), seeded(), set()
    for step, name, number in steps:
        if step == "add":
            pool.add(name, number)
            members.add(name)
        elif step == "discard":
            pool.discard(name)
            members.discard(name)
        else:
            drawn = pool.draw(number % 4, random)
            assert len(set(drawn)) == len(drawn) == min(number % 4, len(members))
            assert members.issuperset(drawn)
            members.difference_update(drawn)
        assert len(pool) == len(members)


@pytest.mark.parametrize("by_samples", [False, True])
@examples(100)
@given(steps=STEPS, names=st.permutations("abcdefgh"))
def test_a_draw_depends_on_the_members_and_not_on_their_history(
    by_samples: bool, steps: list[tuple[str, str, int]], names: list[str]
) -> None:
    old, new = WeightedPool(by_samples=by_samples), WeightedPool(by_samples=by_samples)
    for step, name, number in steps:
        if step == "add":
            old.add(name, number)
        else:
            old.discard(name)
    for name in "abcdefgh":
        old.discard(name)
        old.add(name, ord(name) - 90)
    for name in names:
        new.add(name, ord(name) - 90)
    assert old.draw(5, seeded()) == new.draw(5, seeded())


def test_devices_are_drawn_as_often_as_their_samples_say() -> None:
    pool, random = filled(WeightedPool(by_samples=True), a=1, b=2, c=5), np.random.default_rng(3)
    counts: Counter[str] = Counter()
    for _ in range(8000):
        [device] = pool.draw(1, random)
        counts[device] += 1
        filled(pool, **{device: {"a": 1, "b": 2, "c": 5}[device]})
    assert {name: round(count / 1000) for name, count in counts.items()} == {"a": 1, "b": 2, "c": 5}


@examples(200)
@given(steps=st.lists(st.tuples(st.sampled_from(["join", "leave", "draw", "draw"]), NAMES), max_size=80))
def test_while_a_device_waits_in_a_round_robin_no_other_gets_two_turns(steps: list[tuple[str, str]]) -> None:
    pool, random, members = RoundRobinPool(), seeded(), set()
    since: dict[str, Counter[str]] = {}  # waiting device → turns of the others since it waits
    for step, name in steps:
        if step == "join":
            pool.add(name, 1)
            since.setdefault(name, Counter())
            members.add(name)
        elif step == "leave":
            pool.discard(name)
            members.discard(name)
            since.pop(name, None)
        elif members:
            [device] = pool.draw(1, random)
            members.remove(device)
            del since[device]
            for turns in since.values():
                turns[device] += 1
        assert all(count == 1 for turns in since.values() for count in turns.values())
