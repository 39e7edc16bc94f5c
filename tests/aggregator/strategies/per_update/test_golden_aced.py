"""ACED, x ← x + η·(1/n_t) Σ_{A(t)} Δ_i, recomputed by hand."""

from __future__ import annotations

import pytest

from aggregator.strategies.per_update.aced import ACED
from testbed.history import trace
from tests.aggregator.strategies.by_hand import ByHand


def test_four_arrivals_by_hand() -> None:
    hand = ByHand(ACED(eta=1.0, tau_algo=0))
    hand.start(a=10, b=30)
    hand.update("a", 4.0)
    # t = 0: A = {a}, t_a = 1.  4/1; b has sent nothing, and is not counted
    assert hand.model == [4.0]
    hand.update("b", 8.0)
    # t = 1: 1 − t_a = 0 ≤ τ_algo, A = {a, b}, t_b = 2.  ½·(4 + 8)
    assert hand.model == [10.0]
    hand.update("b", 2.0)
    # t = 2: 2 − t_a = 1 > τ_algo, A = {b}, t_b = 3
    assert hand.model == [12.0]
    hand.update("a", 6.0)
    # t = 3: a is back with t_a = 4, 3 − t_b = 0.  ½·(6 + 2)
    assert hand.model == [16.0]
    assert [event.weights for event in hand.events(trace.Aggregated)] == [[1.0], [0.5], [1.0], [0.5]]


@pytest.mark.parametrize(("tau_algo", "moved"), [(1, 2.0), (2, 5.0)])
def test_a_gradient_counts_for_as_many_versions_as_its_delay_may_be(tau_algo: int, moved: float) -> None:
    hand = ByHand(ACED(eta=1.0, tau_algo=tau_algo))
    hand.start(fast=1, slow=1)
    hand.update("slow", 8.0)  # t_slow = 1
    for _ in range(2):
        hand.update("fast", 0.0)
    before = hand.model[0]
    hand.update("fast", 2.0)
    # t = 3: 3 − 1 = 2;  ½·(8 + 2), or without the slow one 2
    assert hand.model[0] - before == moved


def test_an_arriving_gradient_counts_however_old_its_model_is() -> None:
    hand = ByHand(ACED(eta=1.0, tau_algo=1))
    hand.start(fast=1, slow=1)
    for _ in range(9):
        hand.update("fast", 0.0)
    hand.update("slow", 6.0)
    assert hand.events(trace.Aggregated)[-1].staleness == [9]
    assert (hand.model, hand.engine.tally.rejected) == ([3.0], 0)  # ½·(0 + 6)


def test_without_a_rate_it_is_one_over_the_devices_that_count() -> None:
    hand = ByHand(ACED(tau_algo=5))
    hand.start(a=1, b=1)
    hand.update("a", 4.0)
    assert hand.model == [4.0]  # n_0 = 1
    hand.update("b", 4.0)
    assert hand.model == [6.0]  # n_1 = 2:  ½·½·(4 + 4)
