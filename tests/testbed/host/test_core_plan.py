"""What each core is for, on hosts of several shapes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from testbed.host.core_plan import CorePlan, CoreRoles, roles_of
from testbed.host.priority import Policy
from testbed.host.topology import Topology


def host(cores: Iterable[int], pairs: Iterable[tuple[int, int]] = (), node: dict[int, int] | None = None) -> Topology:
    """A host whose cores in ``pairs`` are threads of one physical core."""
    numbers = tuple(sorted(cores))
    siblings: dict[int, tuple[int, ...]] = dict.fromkeys(numbers, ())
    for first, second in pairs:
        siblings[first], siblings[second] = (second,), (first,)
    return Topology(cores=numbers, siblings=siblings, node=dict.fromkeys(numbers, 0) | (node or {}))


@pytest.mark.parametrize(
    ("available", "aggregator", "evaluator", "devices", "shareable"),
    [
        ([0], 0, 0, (0,), (0,)),
        ([0, 1], 1, 1, (0,), (0, 1)),
        ([0, 1, 2], 2, 2, (0, 1), (0, 1, 2)),
        ([0, 1, 2, 3], 3, 2, (0, 1), (0, 1, 2, 3)),
        ([0, 1, 2, 3, 4, 5, 6, 7], 7, 6, (0, 1, 2, 3, 4, 5), (0, 1, 2, 3, 4, 5, 6, 7)),
        ([7, 5, 9], 9, 9, (5, 7), (5, 7, 9)),
    ],
)
def test_the_last_of_two_or_more_cores_is_the_aggregators(
    available: list[int], aggregator: int, evaluator: int, devices: tuple[int, ...], shareable: tuple[int, ...]
) -> None:
    assert roles_of(host(available)) == CoreRoles(
        aggregator=aggregator, evaluator=evaluator, device_cores=devices, shareable=shareable
    )


def test_the_other_thread_of_the_aggregators_core_stays_free_if_two_physical_cores_are_left() -> None:
    roles = roles_of(host(range(8), [(0, 4), (1, 5), (2, 6), (3, 7)]))
    assert (roles.aggregator, roles.free) == (7, (3,))
    assert 3 not in (*roles.device_cores, *roles.shareable, roles.evaluator)


@pytest.mark.parametrize("pairs", [[(0, 1)], [(0, 2), (1, 3)]])
def test_on_one_or_two_physical_cores_no_thread_stays_free(pairs: list[tuple[int, int]]) -> None:
    numbers = range(2 * len(pairs))
    roles = roles_of(host(numbers, pairs))
    assert (roles.free, set(roles.shareable)) == ((), set(numbers))


def test_devices_use_one_thread_of_each_physical_core_before_the_second_ones() -> None:
    roles = roles_of(host(range(8), [(0, 1), (2, 3), (4, 5), (6, 7)]))
    assert (roles.device_cores, roles.evaluator, roles.free) == ((0, 2, 4, 1, 3), 5, (6,))


def test_devices_use_the_memory_node_of_the_aggregator_before_others() -> None:
    roles = roles_of(host(range(6), node={0: 1, 1: 1, 2: 1}))
    assert roles.device_cores == (3, 4, 0, 1)
    assert roles.evaluator == 2


def test_devices_with_cores_of_their_own_are_spread_one_by_one() -> None:
    roles = roles_of(host([0, 1, 2]), Policy.REAL_TIME)
    assert roles.apart(3) == CorePlan(aggregator=2, evaluator=2, devices=(0, 1, 0), policy=Policy.REAL_TIME)


def test_a_core_plan_as_text_says_which_processes_share_a_core() -> None:
    assert str(roles_of(host([0, 1, 2])).apart(3)) == "aggregator and evaluator on 2, devices on 0 (2), 1 (1)"
    assert str(roles_of(host([0])).apart(2)) == "aggregator and evaluator on 0, devices on 0 (2)"
    assert str(roles_of(host(range(4))).apart(1)) == "aggregator on 3, evaluator on 2, devices on 0 (1)"
    free = roles_of(host([0, 1])).plan((0, 1, 0), pinned=False)
    assert str(free) == "aggregator and evaluator on 1, devices on any of 0, 1"


def test_a_pinned_device_has_one_core_and_one_without_deadlines_has_all_of_them() -> None:
    roles = roles_of(host([0, 1]), Policy.REAL_TIME)
    pinned, free = roles.plan((0, 1, 0)), roles.plan((0, 1, 0), pinned=False, has_links=False)
    assert ([pinned.cores_of(i) for i in range(3)], pinned.policy) == ([(0,), (1,), (0,)], Policy.REAL_TIME)
    assert (free.cores_of(2), free.policy) == ((0, 1), Policy.NICE)  # nothing needs the aggregator at once
    assert roles.plan((0, 1), pinned=False).policy is Policy.REAL_TIME  # transfers do
    assert (pinned.is_shared, roles.apart(2).is_shared) == (True, False)
