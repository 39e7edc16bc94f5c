"""TWAFL, eq. (1) of Zhou et al. 2024 with Σρ = 1 and S(τ) = (e/2)^−τ, recomputed by hand."""

from __future__ import annotations

import pytest

from aggregator.strategies.per_k.twafl import TWAFL
from testbed.history import trace
from tests.aggregator.strategies.by_hand import ByHand

E = 2.718281828459045


def test_two_steps_mix_local_models_made_from_their_own_base() -> None:
    hand = ByHand(TWAFL(k=2, alpha=0.5), (8.0, 0.0))
    hand.start(a=1, b=3, c=2)
    hand.dispatched()

    hand.update("a", 4.0, 0.0)
    hand.update("b", -4.0, 4.0)
    # fresh: (e/2)^0 = 1, ρ = 1/4, 3/4. w_a = (12, 0), w_b = (4, 4):  Σ = (6, 3)
    # 0.5·(8, 0) + 0.5·(6, 3) = (7, 1.5)
    assert (hand.model, hand.dispatched()) == ([7.0, 1.5], ["a", "b"])

    hand.update("c", 0.0, 4.0)
    hand.update("a", 1.0, -1.5)
    # c: version 0 arrives at 1, τ = 1, 2·(2/e) = 4/e, w_c = (8, 0) + (0, 4) = (8, 4)
    # a: fresh, 1·1, w_a = (7, 1.5) + (1, −1.5) = (8, 0)
    # ρ_c = (4/e)/(4/e + 1) = 4/(4 + e), ρ_a = e/(4 + e):  Σ = (8, 16/(4 + e))
    # 0.5·(7, 1.5) + 0.5·Σ = (7.5, 0.75 + 8/(4 + e))
    assert hand.model == pytest.approx([7.5, 0.75 + 8 / (4 + E)])
    assert hand.dispatched() == ["c", "a"]
    made = hand.events(trace.Aggregated)
    assert [event.weights for event in made] == [
        [0.125, 0.375],
        [pytest.approx(2 / (4 + E)), pytest.approx(0.5 * E / (4 + E))],
    ]
    assert [event.staleness for event in made] == [[0, 0], [1, 0]]


@pytest.mark.parametrize("tau", [0, 1, 2, 3])
def test_a_weight_is_multiplied_by_two_over_e_for_each_version(tau: int) -> None:
    hand = ByHand(TWAFL(k=2, alpha=1.0))
    hand.start(a=1, b=1, slow=1)
    for _ in range(tau):
        hand.update("a", 0.0)
        hand.update("b", 0.0)  # a version that changes nothing
    hand.update("slow", 1.0)
    hand.update("a", 0.0)
    # s against 1, with s = 1, 2/e, 4/e², 8/e³:  ρ = s/(s + 1)
    s = [1.0, 2 / E, 4 / E / E, 8 / E / E / E][tau]
    assert hand.model == [pytest.approx(s / (s + 1))]


def test_shares_add_up_to_one_even_if_all_updates_are_stale() -> None:
    hand = ByHand(TWAFL(k=1, alpha=1.0), (4.0,))
    hand.start(fast=1, slow=1)
    hand.update("fast", 1.0)
    hand.update("fast", 1.0)
    hand.update("slow", 8.0)
    # alone, ρ = 1 and α = 1: w_slow = 4 + 8 itself. Not normalised, (2/e)² would leave 6.5
    assert hand.model == [12.0]


def test_a_staleness_too_large_for_a_float_does_not_destroy_the_model() -> None:
    hand = ByHand(TWAFL(k=1, alpha=1.0), (4.0,))
    hand.start(fast=1, slow=1)
    for _ in range(2500):
        hand.update("fast", 0.0)
    hand.update("slow", 8.0)  # (e/2)^−2500 is below the smallest double
    assert hand.model == [12.0]
