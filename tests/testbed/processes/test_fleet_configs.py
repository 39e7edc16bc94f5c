"""The configurations of a run's processes: cores and priorities by the core plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.host.core_plan import CorePlan
from testbed.host.priority import Policy, Priority
from testbed.planning import planner
from testbed.processes.fleet_configs import FleetConfigs
from tests.testbed.planning.test_planner import SURVEY, fleet_of


def configs(cores: CorePlan, folder: Path) -> FleetConfigs:
    experiment = fleet_of(0.01, 0.01) if cores.pinned else fleet_of(None, None)
    plan = planner.plan(experiment, SURVEY, cores, 1.0)
    return FleetConfigs(experiment, plan, folder, quotas={}, replay=None, resume_at=None)


def test_an_evaluator_beside_devices_without_deadlines_competes_like_one_of_them(tmp_path: Path) -> None:
    pinned = configs(CorePlan(aggregator=1, evaluator=1, devices=(0, 1)), tmp_path).evaluator("")
    assert (pinned.cores, pinned.priority) == ((1,), Priority.EVALUATOR)
    free = configs(CorePlan(aggregator=1, evaluator=1, devices=(0, 1), pinned=False), tmp_path).evaluator("")
    assert (free.cores, free.priority) == ((0, 1), Priority.DEVICE)


@pytest.mark.parametrize(
    ("policy", "pinned", "priorities"),
    [
        (Policy.REAL_TIME, True, [Priority.DEVICE, Priority.DEVICE]),
        (Policy.SHORT_SLICE, True, [Priority.DEVICE, Priority.DEVICE_BESIDE_AGGREGATOR]),
        (Policy.NICE, True, [Priority.DEVICE, Priority.DEVICE_BESIDE_AGGREGATOR]),
        (Policy.SHORT_SLICE, False, [Priority.DEVICE_BESIDE_AGGREGATOR] * 2),
        (Policy.NICE, False, [Priority.DEVICE] * 2),
    ],
)
def test_devices_beside_an_aggregator_without_real_time_policy_have_a_very_low_priority(
    policy: Policy, pinned: bool, priorities: list[Priority], tmp_path: Path
) -> None:
    cores = CorePlan(aggregator=1, evaluator=1, devices=(0, 1), pinned=pinned, policy=policy)
    devices = configs(cores, tmp_path).devices("")
    assert [config.priority for config in devices.values()] == priorities
    assert [config.cores for config in devices.values()] == ([(0,), (1,)] if pinned else [(0, 1)] * 2)
