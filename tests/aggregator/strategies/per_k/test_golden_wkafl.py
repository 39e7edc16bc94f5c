"""WKAFL, the two stages of Zhou et al. 2022 as a baseline of Zhou et al. 2024, recomputed by hand."""

from __future__ import annotations

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
    hand = by_hand(WKAFL(k=2, beta=5.0, c=0.5), "a", "b", "c")
    hand.dispatched()
    hand.update("a", 6.0, 0.0)
    hand.update("b", 0.0, 8.0)
    # fresh: p = 1/2, 1/2, −ĝ = (3, 4). cos_a = 18/(6·5) = 0.6, cos_b = 32/(8·5) = 0.8
    # q ∝ e^3, e^4 = 1/(1 + e), e/(1 + e), and the learning rate factor is 1
    first = [6 / (1 + E), 8 * E / (1 + E)]
    assert (hand.model, hand.dispatched()) == (pytest.approx(first), ["a", "b"])

    hand.update("c", 0.0, 2 * (E + 2))
    hand.update("a", 3 * (E + 2) / E, 0.0)
    # c: τ = 1. p ∝ 2/e, 1 = 2/(e + 2), e/(e + 2), so −ĝ = (3, 4) again, and q_c = e/(1 + e), q_a = 1/(1 + e)
    # mean τ = (1 + 0)/2, the factor 1/(1 + 0.5·0.5) = 0.8. With p = 1/2, 1/2 the cosines would be different
    assert hand.model == pytest.approx(
        [first[0] + 0.8 * 3 * (E + 2) / E / (1 + E), first[1] + 0.8 * 2 * (E + 2) * E / (1 + E)]
    )
    assert hand.events(trace.Aggregated)[-1].weights == pytest.approx([0.8 * E / (1 + E), 0.8 / (1 + E)])


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


@pytest.mark.parametrize("beta", [0.0, 2.0, 50.0])
def test_equal_cosines_have_equal_weights(beta: float) -> None:
    # −ĝ = (4, 0), both cosines are 0.8; then both are 1, and the longer gradient has no larger weight
    assert of_two(WKAFL(k=2, beta=beta), (4.0, 3.0), (4.0, -3.0)).model == [4.0, 0.0]
    assert of_two(WKAFL(k=2, beta=beta), (1.0, 0.0), (3.0, 0.0)).model == [2.0, 0.0]


@pytest.mark.parametrize(
    ("theta", "out", "model"),
    [
        (0.6, [], [3.0, 4.0]),  # cosines 0.6 and 0.8: exactly θ is kept
        (0.600001, ["a"], [0.0, 8.0]),
        (0.8, ["a"], [0.0, 8.0]),
        (0.9, ["a"], [0.0, 8.0]),  # none reaches θ: the largest cosine is kept
        (1.0, ["a"], [0.0, 8.0]),
    ],
)
def test_gradients_below_the_threshold_are_left_out(theta: float, out: list[str], model: list[float]) -> None:
    hand = of_two(WKAFL(k=2, theta=theta, beta=0.0), (6.0, 0.0), (0.0, 8.0))
    assert (rejected(hand), hand.model) == (out, model)
    assert hand.dispatched() == ["a", "b"]  # devices that were left out get the new model, too


def test_the_staleness_of_rejected_updates_does_not_lower_the_learning_rate() -> None:
    hand = by_hand(WKAFL(k=2, c=1.0), "a", "b", "slow")
    hand.update("a", 0.0, 0.0)
    hand.update("b", 0.0, 0.0)
    hand.update("slow", -1.0, 0.0)
    hand.update("a", 4.0, 0.0)
    # τ = 1: −ĝ = (−2 + 4e)/(e + 2) > 0, the cosines are −1 and 1. The kept one has τ = 0: the factor is 1, not 1/1.5
    assert (rejected(hand), hand.model) == (["slow"], [4.0, 0.0])


def test_a_delta_of_zero_has_no_direction_and_cosine_zero() -> None:
    kept = of_two(WKAFL(k=2, theta=0.0, beta=0.0), (0.0, 0.0), (2.0, 0.0))
    assert (rejected(kept), kept.model) == ([], [1.0, 0.0])
    left_out = of_two(WKAFL(k=2, theta=0.5), (0.0, 0.0), (2.0, 0.0))
    assert (rejected(left_out), left_out.model) == (["a"], [2.0, 0.0])


@pytest.mark.parametrize("delta", [0.0, 1.0])
def test_without_an_estimate_all_cosines_are_equal(delta: float) -> None:
    hand = of_two(WKAFL(k=2, theta=0.5), (delta, 0.0), (-delta, 0.0))  # −ĝ = 0
    assert (rejected(hand), hand.model) == ([], [0.0, 0.0])
