"""The scheduling of ZeroMQ's threads, as the kernel reports it."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import pytest

from testbed.common.errors import UserError
from testbed.wire import io_thread
from testbed.wire.io_thread import IoPolicy
from testbed.wire.sockets import Hub


def wait_for(policy: int, folder: Path, **settings: IoPolicy | None) -> None:
    """Open a hub, and wait until all threads that it started have this policy: each sets its own."""
    before, patience = set(os.listdir("/proc/self/task")), time.monotonic() + 20.0
    hub = Hub(f"ipc://{folder}/hub", max_bytes=1000, **settings)
    try:
        while (found := policies(set(os.listdir("/proc/self/task")) - before)) != {policy}:
            assert time.monotonic() < patience, found
            time.sleep(0.01)
    finally:
        hub.close()


def policies(threads: set[str]) -> set[int]:
    found = set()
    for thread in threads:
        with contextlib.suppress(ProcessLookupError):  # the one that tried the policy
            found.add(os.sched_getscheduler(int(thread)))
    return found


def test_the_threads_of_a_hub_are_batch_tasks_unless_another_policy_is_given(tmp_path: Path) -> None:
    wait_for(os.SCHED_BATCH, tmp_path)
    wait_for(os.SCHED_OTHER, tmp_path, io=IoPolicy(os.SCHED_OTHER))


def test_without_a_policy_they_are_scheduled_as_the_thread_that_opens_the_hub(tmp_path: Path) -> None:
    wait_for(os.sched_getscheduler(0), tmp_path, io=None)


def test_a_policy_that_the_kernel_refuses_is_an_error_with_a_remedy_and_does_not_end_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(io_thread.os, "sched_setscheduler", refuse)
    with pytest.raises(UserError, match=r"Operation not permitted; .*ulimit -r"):
        Hub(f"ipc://{tmp_path}/hub", max_bytes=1000, io=IoPolicy(os.SCHED_RR, 1))


def test_the_policy_of_this_thread_stays_as_it_is(tmp_path: Path) -> None:
    before = os.sched_getscheduler(0)
    wait_for(os.SCHED_BATCH, tmp_path, io=IoPolicy(os.SCHED_BATCH))
    assert os.sched_getscheduler(0) == before
