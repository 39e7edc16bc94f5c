"""ACE, x ← x + η·(1/N) Σ_{all} Δ_i, recomputed by hand."""

from __future__ import annotations

import pytest

from aggregator.strategies.per_update.ace import ACE
from testbed.history import trace
from tests.aggregator.strategies.by_hand import ByHand


def test_three_arrivals_by_hand() -> None:
    hand = ByHand(ACE(eta=1.0), (0.0, 1.0))
    hand.start(a=10, b=30)
    hand.dispatched()
    hand.update("a", 4.0, 0.0)
    # b has sent nothing: ½·((4, 0) + 0); samples do not count
    assert (hand.model, hand.dispatched(), hand.train("a").version) == ([2.0, 1.0], ["a"], 1)
    hand.update("b", 8.0, 2.0)
    # ½·((4, 0) + (8, 2)): the gradient of a is applied again
    assert hand.model == [8.0, 2.0]
    hand.update("a", -2.0, 0.0)
    # ½·((−2, 0) + (8, 2)): the new one of a replaces its old one
    assert hand.model == [11.0, 3.0]
    made = hand.events(trace.Aggregated)
    assert [event.weights for event in made] == [[0.5]] * 3
    assert [event.staleness for event in made] == [[0], [1], [1]]


def test_without_a_rate_a_gradient_that_is_applied_n_times_is_applied_once_in_sum() -> None:
    hand = ByHand(ACE())
    hand.start(a=1, b=1, c=1, d=1)
    hand.update("a", 8.0)
    # η = ¼:  ¼·¼·8
    assert hand.model == [0.5]
    for device in ("b", "c", "d"):
        hand.update(device, 0.0)
    assert hand.model == [2.0]  # ¼·8, as in a mean of all


def test_the_gradient_of_a_device_that_has_left_still_counts() -> None:
    hand = ByHand(ACE(eta=1.0))
    hand.start(a=1, b=1)
    hand.update("a", 4.0)
    hand.leave("a")
    hand.update("b", 2.0)
    assert hand.model == [2.0 + 3.0]


def test_a_device_that_joins_later_counts_from_then_on() -> None:
    hand = ByHand(ACE(eta=1.0))
    hand.start(a=1, b=1)
    hand.update("a", 4.0)
    hand.join("c")
    hand.update("b", 2.0)
    assert hand.model == [pytest.approx(2.0 + 2.0)]  # (4 + 2 + 0)/3
