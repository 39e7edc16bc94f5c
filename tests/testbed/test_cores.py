from __future__ import annotations

import pytest

from testbed.cores import CorePlan, available_cores, plan


@pytest.mark.parametrize(
    ("available", "aggregator", "evaluator", "devices"),
    [
        ([0], 0, 0, (0, 0, 0, 0, 0)),
        ([0, 1], 0, 0, (1, 1, 1, 1, 1)),
        ([0, 1, 2], 0, 0, (1, 2, 1, 2, 1)),
        ([0, 1, 2, 3], 0, 1, (2, 3, 2, 3, 2)),
        ([0, 1, 2, 3, 4, 5, 6, 7], 0, 1, (2, 3, 4, 5, 6)),
        ([7, 5, 9], 5, 5, (7, 9, 7, 9, 7)),
    ],
)
def test_the_aggregator_owns_a_core_where_there_are_two_or_more(
    available: list[int], aggregator: int, evaluator: int, devices: tuple[int, ...]
) -> None:
    assert plan(available, 5) == CorePlan(aggregator=aggregator, evaluator=evaluator, devices=devices)


def test_a_plan_says_who_shares_what() -> None:
    assert str(plan([0, 1, 2], 3)) == "aggregator and evaluator on 0, devices on 1 (2), 2 (1)"
    assert str(plan([0], 2)) == "aggregator and evaluator on 0, devices on 0 (2)"
    assert str(plan([0, 1, 2, 3], 1)) == "aggregator on 0, evaluator on 1, devices on 2 (1)"


def test_only_cores_that_this_process_may_use_are_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {3, 1})
    assert available_cores() == [1, 3]
