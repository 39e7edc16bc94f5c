"""The limits that a process sets for itself."""

from __future__ import annotations

import os

import pytest

from testbed.host import calibration, cores
from testbed.host.priority import Priority


def test_only_cores_that_this_process_may_use_are_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {3, 1})
    assert cores.available_cores() == [1, 3]


def test_a_process_is_restricted_to_its_cores_and_lowers_its_priority() -> None:
    mine = cores.available_cores()

    def settled() -> list[object]:
        before = os.nice(0)
        return [cores.settle(mine, Priority.DEVICE), os.sched_getaffinity(0) == set(mine), os.nice(0) - before]

    assert calibration.in_child(settled) == [mine, True, min(Priority.DEVICE, 19 - os.nice(0))]


def test_the_roles_of_this_host_use_its_cores() -> None:
    roles = cores.roles()
    assert set(roles.shareable) | set(roles.free) == set(cores.available_cores())


def test_a_process_that_has_no_deadline_any_more_may_use_every_core_of_its_parent() -> None:
    def pinned_and_unpinned() -> list[list[int]]:
        pinned = cores.settle(cores.available_cores()[:1], Priority.DEVICE)
        cores.unpin()
        return [list(pinned), sorted(os.sched_getaffinity(0))]

    assert calibration.in_child(pinned_and_unpinned) == [cores.available_cores()[:1], cores.available_cores()]
