"""The seconds that overlapping spans cover together."""

from __future__ import annotations

import random

import pytest

from testbed.analysis.occupied import Occupied


def union(spans: list[tuple[float, float]], since: float, until: float) -> float:
    """The length of the union, by one sweep over all spans in order."""
    seconds, reached = 0.0, since
    for first, last in sorted(spans):
        start, end = max(first, reached), min(last, until)
        if end > start:
            seconds, reached = seconds + end - start, end
    return seconds


@pytest.mark.parametrize("count", [0, 1, 700, 3000])
def test_the_sum_is_that_of_the_union(count: int) -> None:
    """Spans of a device: nearly in order, some overlap, some are reported a little late."""
    chance = random.Random(count)
    spans = []
    found = Occupied(5.0)
    for number in range(count):
        start = number + chance.uniform(-3.0, 3.0)
        spans.append((start, start + chance.choice([0.0, 0.3, 2.0])))
        found.add(*spans[-1])
    until = max(5.0, count - 2.0)
    assert found.until(until) == pytest.approx(union(spans, 5.0, until))


def test_a_dead_device_is_occupied_from_its_death() -> None:
    found = Occupied(0.0)
    for number in range(2000):
        found.add(float(number), number + 0.5)
    found.add(2000.0, 9000.0)
    assert found.until(8000.0) == 1000.0 + 6000.0
