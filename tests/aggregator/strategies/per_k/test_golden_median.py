"""Median, w ← w + med{Δ_i} in each coordinate, recomputed by hand."""

from __future__ import annotations

import pytest

from aggregator.strategies.per_k.median import Median
from testbed.history import trace
from tests.aggregator.strategies.by_hand import ByHand


def test_two_versions_by_hand_one_device_sends_anything() -> None:
    hand = ByHand(Median(k=3), (1.0, 1.0))
    hand.start(a=10, b=30, evil=1000)
    hand.update("a", 1.0, 4.0)
    hand.update("evil", -900.0, 900.0)
    assert hand.engine.version == 0
    hand.update("b", 3.0, 2.0)
    # first coordinate: −900, 1, 3 → 1; second: 2, 4, 900 → 4. Samples do not count
    assert (hand.model, hand.engine.version) == ([2.0, 5.0], 1)
    # middle values: a has both
    assert hand.events(trace.Aggregated)[-1].weights == [1.0, 0.0, 0.0]

    hand.update("evil", 0.0, 1.0)
    hand.update("b", -2.0, 3.0)
    hand.update("a", 8.0, 2.0)
    # 0 of (−2, 0, 8) and 2 of (1, 2, 3):  (2, 5) + (0, 2)
    assert hand.model == [2.0, 7.0]
    assert hand.events(trace.Aggregated)[-1].weights == [0.5, 0.0, 0.5]
    assert hand.engine.tally.rejected == 0


def test_the_median_of_an_even_number_is_the_mean_of_the_two_middle_values() -> None:
    hand = ByHand(Median(k=4))
    hand.start(a=1, b=1, c=1, d=1)
    for device, delta in (("a", 100.0), ("b", 2.0), ("c", 5.0), ("d", -100.0)):
        hand.update(device, delta)
    assert hand.model == [3.5]  # (2 + 5)/2
    assert hand.events(trace.Aggregated)[-1].weights == [0.0, 0.5, 0.5, 0.0]


@pytest.mark.parametrize(("arrived", "expected"), [((6.0,), 6.0), ((6.0, 2.0), 4.0)])
def test_the_median_is_of_what_has_arrived_if_nothing_more_can_arrive(
    arrived: tuple[float, ...], expected: float
) -> None:
    hand = ByHand(Median(k=3))
    hand.start(a=1, b=1, c=1)
    names = ("a", "b", "c")
    for name, delta in zip(names, arrived, strict=False):
        hand.update(name, delta)
    for name in names[len(arrived) :]:
        hand.leave(name)
    assert (hand.engine.version, hand.model) == (1, [expected])
