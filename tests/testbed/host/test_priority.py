"""The policies of the aggregator, tried in a child process: what is set is read back."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from testbed.host import calibration, priority
from testbed.host.priority import Policy

ORDINARY_USER = 65534


def test_finding_the_strongest_policy_leaves_the_process_as_it_was() -> None:
    def found() -> list[object]:
        return [priority.strongest_policy() in set(Policy), os.sched_getscheduler(0) == os.SCHED_OTHER]

    assert calibration.in_child(found) == [True, True]


def test_the_strongest_policy_can_be_adopted() -> None:
    def adopted() -> str:
        policy = priority.strongest_policy()
        priority.adopt(policy)  # raises if the kernel does not report it
        return policy

    policy = calibration.in_child(adopted)
    assert policy in set(Policy)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_gets_no_real_time_policy() -> None:
    def found() -> str:
        os.setuid(ORDINARY_USER)
        return priority.strongest_policy()

    assert calibration.in_child(found) in (Policy.SHORT_SLICE, Policy.NICE)


def test_without_a_share_for_others_no_process_becomes_a_real_time_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "sched_rt_runtime_us"
    period = tmp_path / "sched_rt_period_us"
    period.write_text("1000000\n", encoding="ascii")
    monkeypatch.setattr(priority, "_RT_RUNTIME", limit)
    monkeypatch.setattr(priority, "_RT_PERIOD", period)
    assert priority.strongest_policy() is not Policy.REAL_TIME  # the kernel does not report it
    for runtime in ("-1", "1000000", "0"):
        limit.write_text(f"{runtime}\n", encoding="ascii")
        assert priority.strongest_policy() is not Policy.REAL_TIME


def test_a_policy_that_the_kernel_does_not_report_back_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "_try_real_time", lambda thread: False)
    with pytest.raises(RuntimeError, match="asked for the policy real-time"):
        priority.adopt(Policy.REAL_TIME)


def test_at_the_end_of_a_run_all_threads_have_the_strongest_policy() -> None:
    def policies() -> list[object]:
        over, batch = threading.Event(), threading.Event()

        def serve() -> None:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
            batch.set()
            over.wait()

        thread = threading.Thread(target=serve)
        thread.start()
        batch.wait()
        strongest = priority.strongest_policy()
        priority.take_precedence()
        found = [strongest, *(os.sched_getscheduler(int(each)) for each in os.listdir("/proc/self/task"))]
        over.set()
        thread.join()
        return found

    expected = {
        Policy.REAL_TIME: {os.SCHED_FIFO},
        Policy.SHORT_SLICE: {os.SCHED_OTHER},
        Policy.NICE: {os.SCHED_OTHER, os.SCHED_BATCH},
    }
    found: Any = calibration.in_child(policies)
    assert set(found[1:]) == expected[Policy(found[0])]


def test_a_process_that_runs_only_when_idle_has_the_idle_policy() -> None:
    def policy() -> int:
        priority.run_only_when_idle()
        return os.sched_getscheduler(0)

    assert calibration.in_child(policy) == os.SCHED_IDLE
