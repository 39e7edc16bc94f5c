"""Staleness-weighted SAFL, eq. (1) of Zhou et al. 2024 with Σρ = 1 and S(τ) = 1/(τ + 1), recomputed by hand."""

from __future__ import annotations

from aggregator.strategies.per_k.safl_weighted import SAFLWeighted
from testbed.history import trace
from tests.aggregator.strategies.by_hand import ByHand


def test_two_steps_mix_local_models_made_from_their_own_base() -> None:
    hand = ByHand(SAFLWeighted(k=2, alpha=0.5), (8.0, 0.0))
    hand.start(a=1, b=3, c=6)
    hand.dispatched()

    hand.update("a", 4.0, 0.0)
    hand.update("b", -4.0, 4.0)
    # fresh: S(0) = 1, ρ = 1/4, 3/4. w_a = (12, 0), w_b = (4, 4):  Σ = (3 + 3, 0 + 3) = (6, 3)
    # 0.5·(8, 0) + 0.5·(6, 3) = (7, 1.5). With the printed minus it would be (1, −1.5)
    assert (hand.model, hand.dispatched()) == ([7.0, 1.5], ["a", "b"])

    hand.update("c", 0.0, 4.0)
    hand.update("a", 1.0, -1.5)
    # c: version 0 arrives at 1, τ = 1, 6·1/2 = 3, w_c = (8, 0) + (0, 4) = (8, 4)
    # a: fresh, 1·1 = 1, w_a = (7, 1.5) + (1, −1.5) = (8, 0).  ρ = 3/4, 1/4:  Σ = (8, 3)
    # 0.5·(7, 1.5) + 0.5·(8, 3) = (7.5, 2.25). With ρ_c on the current model it would be (7.125, 2.8125)
    assert (hand.model, hand.dispatched()) == ([7.5, 2.25], ["c", "a"])
    made = hand.events(trace.Aggregated)
    assert [event.weights for event in made] == [[0.125, 0.375], [0.375, 0.125]]  # α·ρ
    assert [event.staleness for event in made] == [[0, 0], [1, 0]]


def test_a_weight_is_one_over_the_staleness_plus_one() -> None:
    hand = ByHand(SAFLWeighted(k=2, alpha=1.0))
    hand.start(a=1, b=1, slow=4)
    for _ in range(3):
        hand.update("a", 0.0)
        hand.update("b", 0.0)  # three versions that change nothing
    hand.update("slow", 6.0)
    hand.update("a", 2.0)
    # τ = 3: 4·1/(3 + 1) = 1, the same as for a fresh update with one sample:  (6 + 2)/2 = 4
    assert hand.model == [4.0]
    assert hand.events(trace.Aggregated)[-1].weights == [0.5, 0.5]


def test_shares_add_up_to_one_even_if_all_updates_are_stale() -> None:
    hand = ByHand(SAFLWeighted(k=1, alpha=1.0), (4.0,))
    hand.start(fast=1, slow=1)
    hand.update("fast", 1.0)
    hand.update("fast", 1.0)
    assert hand.model == [6.0]
    hand.update("slow", 8.0)
    # alone, ρ = 1 and α = 1: w_slow = 4 + 8 itself. Divided by |D| only, S(2) = 1/3 would leave 4
    assert hand.model == [12.0]


def test_weights_use_the_samples_that_the_update_reports() -> None:
    hand = ByHand(SAFLWeighted(k=2, alpha=1.0))
    hand.start(a=100, b=100)
    hand.update("a", 4.0, samples=1)
    hand.update("b", 8.0, samples=3)
    assert hand.model == [7.0]  # ¼·4 + ¾·8


def test_when_fewer_than_k_can_arrive_the_shares_of_the_others_add_up_to_one() -> None:
    hand = ByHand(SAFLWeighted(k=3, alpha=0.5), (2.0,))
    hand.start(a=1, b=3, c=4)
    hand.update("a", 4.0)
    hand.update("b", 0.0)
    hand.leave("c")
    # ρ = 1/4, 3/4: Σ = ¼·6 + ¾·2 = 3.  0.5·2 + 0.5·3 = 2.5
    assert hand.model == [2.5]
