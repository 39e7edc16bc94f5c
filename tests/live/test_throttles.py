"""Devices with a quota, and speeds by clock or FLOPs: real processes, ratios within one run."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.fidelity.evidence import gather
from testbed.fidelity.measurements import Delivery
from testbed.history import trace
from testbed.host.quotas import cgroups
from tests.live.quotas import need_quotas
from tests.live.runs import Outcome, complete, write_profile

pytestmark = pytest.mark.live
SHARE = 0.2


def quota_run(folder: Path, throttle: str) -> Outcome:
    devices = [{"name": "d", "profile": {"throttle": throttle, "of_host": SHARE}, "link": "wifi"}]
    training = {"steps": 80, "batch": 32, "lr": 0.05}
    return complete(write_profile(folder, devices=devices, training=training, stop={"versions": 4}))


def used_share(run: Outcome) -> float:
    """The share of a core that the device used while it trained."""
    jobs = [event for event in run.of_kind(trace.Trained) if event.use is not None]
    assert all(job.checks == 0 for job in jobs)
    return sum(job.use.cpu for job in jobs if job.use is not None) / sum(job.obtained for job in jobs)


@pytest.mark.parametrize("throttle", ["cgroup", "signal"])
def test_a_device_has_no_more_than_its_quota_and_a_control_group_is_removed_afterwards(
    tmp_path: Path, throttle: str
) -> None:
    """(It may have less on a busy host.)"""
    if throttle == "cgroup":
        need_quotas()
    run = quota_run(tmp_path, throttle)
    assert (run.code, run.stderr) == (0, "")
    assert 0 < used_share(run) <= 1.1 * SHARE
    assert run.json("meta.json")["quotas"]["d-1"] == pytest.approx(SHARE, rel=0.01)
    if throttle == "cgroup":
        pid = run.json("meta.json")["pids"]["launcher"]
        assert not list(cgroups.find().group.glob(f"edgebed-{pid}*"))


@pytest.mark.timing
@pytest.mark.parametrize("throttle", ["cgroup", "signal"])
def test_a_device_has_its_share_and_delivers_in_time(tmp_path: Path, throttle: str) -> None:
    if throttle == "cgroup":
        need_quotas()
    run = quota_run(tmp_path, throttle)
    assert 0.7 * SHARE <= used_share(run) <= 1.1 * SHARE
    # the quota slows steps by a factor of five, but not deliveries
    noted: list[Delivery] = []
    gather(run.events, noted.append)
    late = [delivery.late for delivery in noted if delivery.arrived is not None]
    assert sorted(late)[len(late) // 2] < 0.005


def test_speeds_by_clock_and_by_flops_follow_from_the_network(tmp_path: Path) -> None:
    """For one image, the small CNN needs 19,712 multiply-adds in its convolutions and 1,280 in its last layer."""
    devices = [
        {"name": "clock", "profile": {"clock_hz": 1e6}, "link": "none"},
        {"name": "flops", "profile": {"flop_per_second": 1e7}, "link": "none"},
    ]
    training = {"steps": 1, "batch": 32, "lr": 0.05}
    run = complete(write_profile(tmp_path, devices=devices, training=training, stop={"versions": 4}))
    survey = run.json("meta.json")["calibration"]
    forward = 2 * (16 * 9 * 64 + 32 * 16 * 9 * 16 + 128 * 10)
    assert survey["flops_forward"] == forward
    samples = {event.device: min(32, event.samples) for event in run.of_kind(trace.Joined)}
    asked = {event.device: event.asked / samples[event.device] for event in run.of_kind(trace.Trained)}
    assert asked["clock-1"] == pytest.approx(forward / 4 / 1e6)
    assert asked["flops-1"] == pytest.approx(survey["flops_training"] / 1e7)
    assert 2.0 < survey["flops_training"] / forward < 3.5
