"""Devices that are suspended by SIGSTOP are really stopped, continue later, and do not prevent the end of a run."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from testbed.history import trace
from tests.live.runs import Run, started, write_profile

pytestmark = pytest.mark.live


def freezing(folder: Path, longest: float) -> Path:
    """One device that works, and one whose jobs are all suspended, for up to ``longest`` seconds."""
    suspension = {"suspend": 1.0, "suspend_max": longest, "suspend_by": "signal"}
    groups = [
        {"profile": "rpi4", "link": "wifi", "name": "steady"},
        {"profile": "rpi4", "link": "wifi", "name": "sleepy", **suspension},
    ]
    return write_profile(folder, devices=groups, presence={"heartbeat": 0.25, "timeout": 1000.0})


def suspended_device(run: Run) -> psutil.Process:
    run.wait_until_traced("arrived")
    return run.members()["sleepy-1"]


def wait_until_stopped(run: Run, device: psutil.Process) -> None:
    run.wait_for(lambda: device.status() == psutil.STATUS_STOPPED, "a device in state stopped")


def test_a_device_suspended_by_signal_is_stopped_for_some_seconds_and_continues(tmp_path: Path) -> None:
    with started(freezing(tmp_path, longest=3.0)) as run:
        device = suspended_device(run)
        wait_until_stopped(run, device)
        run.wait_for(lambda: device.status() != psutil.STATUS_STOPPED, "its return")
        run.wait_until_traced("suspended", 2)
        run.process.send_signal(signal.SIGINT)
        outcome = run.finish()
    assert outcome.code == 130
    assert outcome.of_kind(trace.Left) == []
    suspensions = outcome.of_kind(trace.Suspended)
    assert {suspension.device for suspension in suspensions} == {"sleepy-1"}
    # the end of the run may have interrupted the last
    assert all(suspension.obtained >= suspension.asked for suspension in suspensions[:-1])
    assert {event.device for event in outcome.of_kind(trace.Arrived)} == {"steady-1", "sleepy-1"}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_ends_while_a_device_is_stopped_leaves_nothing_behind(tmp_path: Path, how: signal.Signals) -> None:
    with started(freezing(tmp_path, longest=100_000.0)) as run:
        wait_until_stopped(run, suspended_device(run))
        run.process.send_signal(how)
        outcome = run.finish()
    if how is signal.SIGKILL:
        assert outcome.code == -signal.SIGKILL
        return
    assert (outcome.code, outcome.stderr) == (130, "")
    # it was continued at the end, and reported how long it had been stopped
    [suspension] = outcome.of_kind(trace.Suspended)
    assert (suspension.device, suspension.obtained < suspension.asked) == ("sleepy-1", True)
    assert outcome.summary["in_flight"] == 2
