"""The launcher's own manners. What it starts and ends is in tests/live."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import pytest

from testbed import launcher, rapl
from tests.testbed.test_rapl import set_to, zone


def test_a_user_who_may_not_take_back_a_priority_still_gets_the_cores_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving SCHED_IDLE is for root; a run must not end in an error for it."""
    policies: list[int] = []

    def set_policy(pid: int, policy: int, _: os.sched_param) -> None:
        policies.append(policy)
        if policy == os.SCHED_OTHER:
            raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.sched_setscheduler", set_policy)
    before = os.sched_getaffinity(0)
    with launcher._pinned(min(before)):
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before
    assert policies == [os.SCHED_IDLE, os.SCHED_OTHER]


# ---- the host's own joules


def test_the_host_is_metered_from_when_the_run_has_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = zone(tmp_path, "intel-rapl:0", "package-0", counter=100_000)
    monkeypatch.setattr(rapl, "Meter", functools.partial(rapl.Meter, root=tmp_path))
    never: Any = None
    run: Any = launcher.Launcher(never, never, tmp_path, tmp_path, never, never, never)
    run._meter_host()
    assert run.host_energy is None
    set_to(counter, 200_000)  # before the run
    run._running = True
    for value in (200_000, 450_000):
        set_to(counter, value)
        run._meter_host()
    assert run.host_energy["joules"] == {"intel-rapl:0": 0.25}
    assert 0.0 <= run.host_energy["seconds"] < 60.0
