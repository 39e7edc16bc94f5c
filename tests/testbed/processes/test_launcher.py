"""The launcher's own manners. What it starts and ends is in tests/live."""

from __future__ import annotations

import os

import pytest

from testbed.processes import launcher


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
