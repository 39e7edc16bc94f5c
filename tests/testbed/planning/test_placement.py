"""Which core each device uses: by demand, on cores of its own or beside the aggregator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.host.core_plan import CoreRoles
from testbed.host.priority import Policy
from testbed.planning import placement
from testbed.planning.demand import FleetDemand

ROLES = CoreRoles(aggregator=1, evaluator=1, device_cores=(0,), shareable=(0, 1), policy=Policy.REAL_TIME)
LARGE = CoreRoles(aggregator=3, evaluator=2, device_cores=(0, 1), shareable=(0, 1, 2, 3), policy=Policy.SHORT_SLICE)
STEP: Any = object()
"""A step of some device: only whether there are any decides about deadlines."""


def demand_of(*shares: float | None, aggregator: float = 0.02, evaluator: float = 0.0) -> FleetDemand:
    throttled = [share for share in shares if share is not None]
    return FleetDemand(
        devices=(),
        steps=(STEP,) * len(throttled),
        shares=shares,
        at_once=len(shares),
        idle_share=0.0,
        aggregator=aggregator,
        evaluator=evaluator,
        updates_per_second=1.0,
        service_seconds=6e-4,
    )


def places(demand: FleetDemand, sharing: str, roles: CoreRoles = ROLES) -> list[tuple[int, ...]]:
    return [plan.devices for plan in placement.core_plans(demand, roles, sharing)]


def test_cores_of_their_own_come_first_and_the_aggregators_core_second() -> None:
    assert places(demand_of(0.1, 0.1), "auto") == [(0, 0), (0, 1)]
    assert places(demand_of(0.1, 0.1), "apart") == [(0, 0)]
    assert places(demand_of(0.1, 0.1), "shared") == [(0, 1)]


@pytest.mark.parametrize(
    ("demand", "roles"),
    [
        (demand_of(0.1, 0.1), replace(ROLES, policy=Policy.NICE)),
        (demand_of(0.4, 0.4, aggregator=0.3), ROLES),
        (replace(demand_of(0.1, 0.1), service_seconds=0.05), ROLES),
        (demand_of(0.1, None), ROLES),
    ],
    ids=["an aggregator that cannot interrupt devices", "a busy aggregator", "updates that take long", "no throttle"],
)
def test_an_aggregators_core_is_not_shared_where_the_timing_would_suffer(demand: FleetDemand, roles: CoreRoles) -> None:
    assert places(demand, "auto", roles) == [(0, 0)]
    assert all(set(devices) == {0, 1} for devices in places(demand, "shared", roles))  # the user wants it


def test_the_aggregators_own_demand_keeps_devices_away_from_its_core() -> None:
    [devices] = places(demand_of(0.1, 0.1, 0.1, 0.1, aggregator=0.15), "shared")
    assert (devices.count(0), devices.count(1)) == (3, 1)


def test_the_evaluators_share_of_a_core_is_left_to_it() -> None:
    [devices] = places(demand_of(0.1, 0.1, 0.1, evaluator=0.25), "shared")
    assert devices == (0, 0, 0)
    [devices] = places(demand_of(0.1, 0.1, 0.1, 0.1, evaluator=0.35), "shared", LARGE)
    assert 2 not in devices


def test_the_largest_demands_are_placed_first() -> None:
    [devices] = places(demand_of(0.1, 0.1, 0.2, 0.4, aggregator=0.0), "shared")
    assert devices == (1, 1, 1, 0)


def test_a_device_without_a_throttle_gets_a_core_without_deadlines_if_there_is_one() -> None:
    beside_the_others, beside_the_aggregator = places(demand_of(0.3, None), "shared")
    assert (beside_the_others, beside_the_aggregator) == ((1, 0), (0, 1))


def test_devices_without_a_throttle_never_use_all_cores() -> None:
    for devices in places(demand_of(0.3, *[None] * 10), "apart", LARGE):
        assert devices[0] not in devices[1:]


def test_devices_without_a_throttle_get_fewer_cores_where_the_others_need_them() -> None:
    four = replace(LARGE, device_cores=(4, 5, 6, 7))
    assert places(demand_of(0.7, 0.6, None, None, None), "apart", four) == [(4, 4, 5, 6, 7), (4, 5, 7, 7, 7)]


def test_a_fleet_without_deadlines_is_not_pinned_and_uses_all_cores() -> None:
    [plan] = placement.core_plans(demand_of(None, None, None), ROLES, "auto")
    assert (plan.pinned, plan.devices, plan.cores_of(0)) == (False, (0, 1, 0), (0, 1))
    [plan] = placement.core_plans(demand_of(None, None), ROLES, "apart")
    assert plan.cores_of(0) == (0,)


@given(st.lists(st.floats(0.001, 0.5), min_size=1, max_size=40), st.floats(0.0, 0.3))
def test_no_core_has_more_than_the_mean_and_one_device(shares: list[float], aggregator: float) -> None:
    demand = demand_of(*shares, aggregator=aggregator)
    [plan] = placement.core_plans(demand, LARGE, "shared")
    loads = {core: aggregator if core == 3 else 0.0 for core in LARGE.shareable}
    for share, core in zip(shares, plan.devices, strict=True):
        loads[core] += share
    assert max(loads.values()) <= max(aggregator, sum(loads.values()) / 4 + max(shares)) + 1e-9
