"""Devices beside the aggregator on its core, and devices without deadlines on every core."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testbed.host.priority import Policy
from tests.live.runs import started, write_profile

pytestmark = pytest.mark.live

POLICIES = {Policy.REAL_TIME: os.SCHED_FIFO, Policy.SHORT_SLICE: os.SCHED_OTHER, Policy.NICE: os.SCHED_OTHER}
needs_two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is only one core")


@needs_two_cores
def test_devices_beside_the_aggregator_are_pinned_and_the_aggregator_has_its_policy(tmp_path: Path) -> None:
    groups = [{"profile": "rpi3bplus", "link": "wifi", "count": 4}]
    with started(
        write_profile(tmp_path, devices=groups, cores="shared", stop={"versions": 12}), own_templates=True
    ) as run:
        run.wait_until_traced("arrived", 2)
        members = run.members()
        cores = {name: process.cpu_affinity() for name, process in members.items()}
        policy = os.sched_getscheduler(members["aggregator"].pid)
        outcome = run.finish()
    plan = outcome.json("meta.json")["core_plan"]
    names = [f"rpi3bplus-{i}" for i in range(1, 5)]
    assert outcome.code == 0
    assert plan["aggregator"] in plan["devices"]
    assert [cores[name] for name in names] == [[core] for core in plan["devices"]]
    assert {name for name in cores if name.startswith("canary@")} == {f"canary@{core}" for core in plan["devices"]}
    assert policy == POLICIES[Policy(plan["policy"])]


@needs_two_cores
def test_devices_without_deadlines_may_use_every_core_unless_the_profile_keeps_them_apart(tmp_path: Path) -> None:
    for cores, everywhere in (("auto", True), ("apart", False)):
        groups = [{"profile": "host", "link": "none", "count": 3}]
        folder = tmp_path / cores
        folder.mkdir()
        with started(
            write_profile(folder, devices=groups, cores=cores, stop={"versions": 400}), own_templates=True
        ) as run:
            run.wait_until_traced("arrived", 2)
            members = run.members()
            seen = [set(members[f"host-{i}"].cpu_affinity() or ()) for i in (1, 2, 3)]
            [aggregator] = members["aggregator"].cpu_affinity() or ()
            outcome = run.finish()
        plan = outcome.json("meta.json")["core_plan"]
        assert (outcome.code, plan["pinned"]) == (0, False)
        assert seen == [set(plan["devices"])] * 3
        assert (aggregator in seen[0]) is everywhere
