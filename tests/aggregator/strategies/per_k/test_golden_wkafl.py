"""WKAFL, the two stages of Zhou et al. 2022 as a baseline of Zhou et al. 2024, recomputed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aggregator.strategies.per_k.wkafl import WKAFL
from testbed.history import trace
from testbed.wire.training_job import Job
from tests.aggregator.strategies.by_hand import ByHand

E = 2.718281828459045


def by_hand(strategy: WKAFL, *names: str, lr: float = 1.0) -> ByHand:
    """With η = 1, a delta is the gradient with the opposite sign."""
    hand = ByHand(strategy, (0.0, 0.0), job=Job(lr=lr))
    hand.start(**dict.fromkeys(names, 1))
    return hand


def of_two(strategy: WKAFL, first: tuple[float, float], second: tuple[float, float]) -> ByHand:
    """Return a run after one version, made from fresh updates of a and b."""
    hand = by_hand(strategy, "a", "b")
    hand.dispatched()
    hand.update("a", *first)
    hand.update("b", *second)
    assert hand.engine.version == 1
    return hand


def rejected(hand: ByHand) -> list[str]:
    events = hand.events(trace.Rejected)
    assert hand.engine.tally.rejected == len(events)
    assert {event.reason for event in events} <= {"its direction is too far from the estimated gradient"}
    return [event.device for event in events]


def test_two_steps_of_both_stages() -> None:
    hand = by_hand(WKAFL(k=2, alpha=0.5, beta=5.0, c=0.5), "a", "b", "c")
    hand.dispatched()
    hand.update("a", 6.0, 0.0)
    hand.update("b", 0.0, 8.0)
    # fresh: p = 1/2, 1/2, −ĝ = (3, 4). cos_a = 18/(6·5) = 0.6, cos_b = 32/(8·5) = 0.8
    # q ∝ e^3/2, e^4/2 = 1/(1 + e), e/(1 + e); there is no momentum yet, and the learning rate factor is 1
    first = [6 / (1 + E), 8 * E / (1 + E)]
    assert (hand.model, hand.dispatched()) == (pytest.approx(first), ["a", "b"])

    # −u is the first step; with half of it, the deltas become (0, 2(e + 2)) and (3(e + 2)/e, 0)
    hand.update("c", -first[0] / 2, 2 * (E + 2) - first[1] / 2)
    hand.update("a", 3 * (E + 2) / E - first[0] / 2, -first[1] / 2)
    # c: τ = 1. p ∝ 2/e, 1 = 2/(e + 2), e/(e + 2), so −ĝ = (6, 0)/2 + (0, 8)/2 = (3, 4) again, with cosines 0.8, 0.6
    # q ∝ 2·e^4, e·e^3 = 2/3, 1/3. The smallest τ is 0, so that the factor is 1
    second = [(E + 2) / E, 4 * (E + 2) / 3]
    assert hand.model == pytest.approx([first[0] + second[0], first[1] + second[1]])
    assert hand.events(trace.Aggregated)[-1].weights == pytest.approx([2 / 3, 1 / 3])


def test_the_momentum_is_the_gradient_that_was_applied_last() -> None:
    hand = by_hand(WKAFL(k=1, alpha=0.5, c=1.0), "a", "b")
    hand.update("a", 8.0, 0.0)  # −u = (8, 0)
    hand.update("b", 0.0, 3.0)  # τ = 1: (0, 3) + (8, 0)/2 = (4, 3) with a factor of 1/2, which −u does not have
    assert hand.model == [10.0, 1.5]
    hand.update("b", 0.0, 0.0)  # (4, 3)/2
    assert hand.model == [12.0, 3.0]


def test_the_momentum_is_added_before_the_clip() -> None:
    hand = by_hand(WKAFL(k=1, alpha=0.5, clip=5.0), "a")
    hand.update("a", 3.0, 4.0)
    hand.update("a", 4.5, 6.0)  # (4.5, 6) + (3, 4)/2 = (6, 8), clipped to (3, 4)
    assert hand.model == pytest.approx([6.0, 8.0])
    assert hand.events(trace.Aggregated)[-1].weights == [0.5]


@pytest.mark.parametrize(
    ("length", "moved"),
    [
        (0.5, 0.5),
        (1.0, 1.0),  # ‖g‖ = B
        (1.0 + 2**-20, 1.0),  # just above
        (40.0, 1.0),
    ],
)
def test_a_gradient_longer_than_the_bound_is_clipped_to_it(length: float, moved: float) -> None:
    # Δ = −η g and B limits g: with B = 5 and η = 0.5 the limit of Δ is 2.5, the length of (1.5, 2)
    hand = by_hand(WKAFL(k=1, clip=5.0), "a", lr=0.5)
    hand.update("a", 1.5 * length, 2.0 * length)
    expected = [1.5 * moved, 2.0 * moved]
    assert hand.model == (expected if length <= 1 else pytest.approx(expected, rel=2e-7))


def test_gradients_are_clipped_before_they_are_compared() -> None:
    hand = of_two(WKAFL(k=2, clip=8.0, theta=0.5, beta=0.0), (80.0, 0.0), (0.0, 6.0))
    # (8, 0) and (0, 6): −ĝ = (4, 3), cosines 0.8 and 0.6; unclipped, that of b would be 6/80. β = 0: q = 1/2, 1/2
    assert hand.model == [4.0, 3.0]
    assert rejected(hand) == []


@pytest.mark.parametrize("beta", [0.0, 2.0, 50.0, 1e6])
def test_equal_cosines_have_equal_weights(beta: float) -> None:
    # −ĝ = (4, 0), both cosines are 0.8; then both are 1, and the longer gradient has no larger weight
    assert of_two(WKAFL(k=2, beta=beta), (4.0, 3.0), (4.0, -3.0)).model == [4.0, 0.0]
    assert of_two(WKAFL(k=2, beta=beta), (1.0, 0.0), (3.0, 0.0)).model == [2.0, 0.0]


@pytest.mark.parametrize(
    ("theta", "out", "model"),
    [
        (0.6, [], [3.0, 4.0]),  # cosines 0.6 and 0.8: exactly θ is kept
        (0.60001, ["a"], [0.0, 8.0]),
        (0.8, ["a"], [0.0, 8.0]),
        (0.9, [], [3.0, 4.0]),  # none reaches θ: the step is −ĝ
        (1.0, [], [3.0, 4.0]),
    ],
)
def test_gradients_below_the_threshold_are_left_out(theta: float, out: list[str], model: list[float]) -> None:
    hand = of_two(WKAFL(k=2, theta=theta, beta=0.0), (6.0, 0.0), (0.0, 8.0))
    assert (rejected(hand), hand.model) == (out, model)
    assert hand.dispatched() == ["a", "b"]  # devices that were left out get the new model, too


def test_without_a_near_gradient_the_step_has_the_weights_by_staleness() -> None:
    hand = by_hand(WKAFL(k=2, alpha=0.0, theta=0.9, beta=5.0), "a", "b", "slow")
    hand.update("a", 0.0, 0.0)
    hand.update("b", 0.0, 0.0)
    hand.update("slow", 0.0, 2 * (E + 2))
    hand.update("a", 3 * (E + 2) / E, 0.0)
    # τ = 1, 0: p = 2/(e + 2), e/(e + 2), −ĝ = (3, 4), cosines 0.8 and 0.6. The weights of stage 2 do not count
    assert (rejected(hand), hand.model) == ([], pytest.approx([3.0, 4.0]))
    assert hand.events(trace.Aggregated)[-1].weights == pytest.approx([2 / (E + 2), E / (E + 2)])


def test_rounding_does_not_separate_two_gradients_with_the_same_cosine() -> None:
    random = np.random.default_rng(0)
    for _ in range(200):
        a = random.normal(size=50)
        b = random.normal(size=50)
        b *= np.linalg.norm(a) / np.linalg.norm(b)
        # of the same length: −ĝ = (a + b)/2 has the same angle to both, and its cosine is √((1 + cos(a, b))/2)
        theta = math.sqrt((1 + a @ b / (a @ a)) / 2)
        hand = ByHand(WKAFL(k=2, theta=theta), [0.0] * 50, job=Job(lr=1.0))
        hand.start(a=1, b=1)
        hand.update("a", *a)
        hand.update("b", *b)
        assert rejected(hand) == []
        assert hand.events(trace.Aggregated)[-1].weights == pytest.approx([0.5, 0.5], rel=1e-4)


def test_the_smallest_staleness_lowers_the_learning_rate() -> None:
    hand = by_hand(WKAFL(k=2, alpha=0.0, c=1.0), "a", "b", "c", "d")
    for device in ("a", "b", "c", "a", "d", "b"):
        hand.update(device, 1.0, 0.0)
    # a, b: τ = 0, 0, a step of 1. c, a: τ = 1, 0, again 1. d, b: τ = 2, 1, a step of 1/(1 + 1)
    assert hand.model == pytest.approx([2.5, 0.0])


def test_the_staleness_of_rejected_updates_counts_for_the_learning_rate() -> None:
    hand = by_hand(WKAFL(k=2, c=1.0), "a", "b", "slow")
    hand.update("a", 0.0, 0.0)
    hand.update("b", 0.0, 0.0)
    hand.update("slow", 8.0, 0.0)
    hand.update("a", -1.0, 0.0)
    # τ = 1, 0: −ĝ = (16 − e)/(e + 2) > 0, the cosines are 1 and −1. The kept one has τ = 1, but the smallest is 0
    assert (rejected(hand), hand.model) == (["a"], [8.0, 0.0])


def test_a_delta_of_zero_has_no_direction_and_cosine_zero() -> None:
    kept = of_two(WKAFL(k=2, theta=0.0, beta=0.0), (0.0, 0.0), (2.0, 0.0))
    assert (rejected(kept), kept.model) == ([], [1.0, 0.0])
    left_out = of_two(WKAFL(k=2, theta=0.5), (0.0, 0.0), (2.0, 0.0))
    assert (rejected(left_out), left_out.model) == (["a"], [2.0, 0.0])


@pytest.mark.parametrize("delta", [0.0, 1.0])
def test_without_an_estimate_all_cosines_are_equal(delta: float) -> None:
    hand = of_two(WKAFL(k=2, theta=0.5), (delta, 0.0), (-delta, 0.0))  # −ĝ = 0
    assert (rejected(hand), hand.model) == ([], [0.0, 0.0])
