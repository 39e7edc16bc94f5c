from __future__ import annotations

import pytest

from testbed.host.cores import CorePlan, available_cores, plan


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
