from __future__ import annotations

import os

import pytest

from testbed.host.calibration import in_child
from testbed.host.cores import CorePlan, Priority, available_cores, plan, settle, unpin


@pytest.mark.parametrize(
    ("available", "aggregator", "evaluator", "devices"),
    [
        ([0], 0, 0, (0, 0, 0, 0, 0)),
        ([0, 1], 1, 1, (0, 0, 0, 0, 0)),
        ([0, 1, 2], 2, 2, (0, 1, 0, 1, 0)),
        ([0, 1, 2, 3], 3, 2, (0, 1, 0, 1, 0)),
        ([0, 1, 2, 3, 4, 5, 6, 7], 7, 6, (0, 1, 2, 3, 4)),
        ([7, 5, 9], 9, 9, (5, 7, 5, 7, 5)),
    ],
)
def test_the_last_of_two_or_more_cores_is_the_aggregators(
    available: list[int], aggregator: int, evaluator: int, devices: tuple[int, ...]
) -> None:
    assert plan(available, 5) == CorePlan(aggregator=aggregator, evaluator=evaluator, devices=devices)


def test_a_core_plan_as_text_says_which_processes_share_a_core() -> None:
    assert str(plan([0, 1, 2], 3)) == "aggregator and evaluator on 2, devices on 0 (2), 1 (1)"
    assert str(plan([0], 2)) == "aggregator and evaluator on 0, devices on 0 (2)"
    assert str(plan([0, 1, 2, 3], 1)) == "aggregator on 3, evaluator on 2, devices on 0 (1)"


def test_only_cores_that_this_process_may_use_are_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {3, 1})
    assert available_cores() == [1, 3]


def test_a_process_that_has_no_deadline_any_more_may_use_every_core_of_its_parent() -> None:
    def pinned_and_unpinned() -> list[list[int]]:
        pinned = settle(min(available_cores()), Priority.DEVICE)
        unpin()
        return [list(pinned), sorted(os.sched_getaffinity(0))]

    assert in_child(pinned_and_unpinned) == [[min(available_cores())], available_cores()]
