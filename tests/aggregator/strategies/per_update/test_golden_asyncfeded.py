"""AsyncFedED, eq. (5) to (8) of Wang et al. 2022, recomputed by hand."""

from __future__ import annotations

import pytest

from aggregator.strategies.per_update.asyncfeded import AsyncFedED
from testbed.history import trace
from testbed.wire.training_job import Job
from tests.aggregator.strategies.by_hand import ByHand


def by_hand(strategy: AsyncFedED, job: Job | None = None) -> ByHand:
    hand = ByHand(strategy, (0.0, 0.0), job=job or Job(steps=10))
    hand.start(a=1, b=1)
    return hand


def steps(hand: ByHand, device: str) -> int:
    return hand.train(device).job.steps


def test_three_steps_by_hand() -> None:
    hand = by_hand(AsyncFedED(lam=2.0, eps=0.5, gamma_bar=3.0, kappa=1.0))
    assert (steps(hand, "a"), steps(hand, "b")) == (10, 10)

    hand.update("a", 3.0, 4.0)
    # fresh: γ = 0/5 = 0, η_g = λ/ε = 2/0.5 = 4, x = 0 + 4·(3, 4) = (12, 16), K_a = 10 + ⌊(3 − 0)·1⌋ = 13
    assert hand.model == [12.0, 16.0]
    assert steps(hand, "a") == 13

    hand.update("b", 0.0, 10.0)
    # base (0, 0): γ = ‖(12, 16)‖/10 = 20/10 = 2, η_g = 2/2.5 = 0.8, x = (12, 16 + 8), K_b = 10 + ⌊(3 − 2)·1⌋ = 11
    assert hand.model == [12.0, 24.0]
    assert steps(hand, "b") == 11

    hand.update("a", 0.0, -2.0)
    # base (12, 16): γ = ‖(0, 8)‖/2 = 4, η_g = 2/4.5 = 4/9, x = (12, 24 − 8/9), K_a = 13 + ⌊(3 − 4)·1⌋ = 12
    assert hand.model == [12.0, pytest.approx(24 - 8 / 9)]
    assert steps(hand, "a") == 12
    assert [made.weights for made in hand.events(trace.Aggregated)] == [[4.0], [0.8], [pytest.approx(4 / 9)]]
    assert steps(hand, "b") == 11  # each device has its own K


def stale(gamma: float, **parameters: float) -> ByHand:
    """Device b has just delivered an update of staleness γ; λ/ε = 1 by default."""
    hand = by_hand(AsyncFedED(**parameters))  # type: ignore[arg-type]
    hand.update("a", gamma, 0.0)  # fresh, η_g = 1: the model moves by γ
    hand.update("b", 0.0, 1.0)  # length 1
    return hand


@pytest.mark.parametrize(
    ("gamma", "kappa", "k"),
    [
        (2.0, 1.0, 11),  # 10 + ⌊1⌋
        (2.0, 0.5, 10),  # 10 + ⌊0.5⌋ = 10 + 0
        (4.0, 0.5, 9),  # 10 + ⌊−0.5⌋ = 10 − 1; truncation would leave 10
        (4.0, 0.05, 9),  # 10 + ⌊−0.05⌋ = 10 − 1
        (3.0, 0.5, 10),  # γ = γ̄: ⌊0⌋
        (12.0, 1.0, 1),  # 10 + ⌊−9⌋ = 1
        (13.0, 1.0, 1),  # 10 + ⌊−10⌋ = 0, and K is at least 1
        (40.0, 1.0, 1),  # 10 + ⌊−37⌋ = −27
        (40.0, 0.0, 10),  # κ = 0 keeps K
    ],
)
def test_the_local_steps_change_by_the_floor_and_stay_above_zero(gamma: float, kappa: float, k: int) -> None:
    assert steps(stale(gamma, gamma_bar=3.0, kappa=kappa), "b") == k


def test_the_local_steps_grow_to_their_maximum_and_not_beyond() -> None:
    hand = by_hand(AsyncFedED(gamma_bar=3.0, kappa=0.5, k_max=12))
    seen = []
    for _ in range(4):
        hand.update("a", 1.0, 0.0)  # always fresh: K + ⌊(3 − 0)·0.5⌋ = K + 1
        seen.append(steps(hand, "a"))
    assert seen == [11, 12, 12, 12]


def test_the_first_job_has_the_initial_k_even_if_the_profile_counts_epochs() -> None:
    hand = by_hand(AsyncFedED(k_initial=4, gamma_bar=3.0, kappa=1.0), Job(steps=10, epochs=2, lr=0.3))
    assert hand.train("a").job == Job(steps=4, epochs=0, lr=0.3)
    hand.update("a", 1.0, 0.0)
    assert hand.train("a").job == Job(steps=7, epochs=0, lr=0.3)  # 4 + ⌊3·1⌋


def test_the_learning_rate_of_a_stale_update_uses_the_offset() -> None:
    # γ = 3/1, η_g = 6/(3 + 1.5) = 4/3. The first update moves by λ/ε = 4 times its length, so γ is 4·0.75 = 3
    hand = by_hand(AsyncFedED(lam=6.0, eps=1.5))
    hand.update("a", 0.75, 0.0)
    hand.update("b", 0.0, 1.0)
    assert hand.model == [3.0, pytest.approx(4 / 3)]


def test_a_delta_of_zero_is_rejected_and_its_device_continues() -> None:
    hand = by_hand(AsyncFedED())
    hand.dispatched()
    hand.update("a", 0.0, 0.0)
    assert (hand.engine.version, hand.engine.tally.rejected) == (0, 1)
    assert [event.reason for event in hand.events(trace.Rejected)] == ["its delta is zero"]
    assert hand.dispatched() == ["a"]
    assert steps(hand, "a") == 10


def test_the_bound_rejects_staler_updates_only() -> None:
    at_bound = stale(2.0, gamma_max=2.0)
    # γ = Γ = 2: η_g = 1/(2 + 1)
    assert at_bound.model == [2.0, pytest.approx(1 / 3)]

    above = stale(2.5, gamma_max=2.0, gamma_bar=1.0, kappa=1.0)
    assert above.model == [2.5, 0.0]
    assert [(event.device, event.reason) for event in above.events(trace.Rejected)] == [
        ("b", "its staleness γ is above 2")
    ]
    assert above.train("b").version == 1
    assert steps(above, "b") == 8  # 10 + ⌊1 − 2.5⌋: fewer steps, or it would be too stale forever


def test_a_diverged_model_does_not_end_the_run() -> None:
    hand = by_hand(AsyncFedED())
    hand.update("a", 1.5e19, 0.0)
    hand.update("a", 1.5e19, 0.0)
    hand.update("b", 0.0, 1.0)  # (3e19)² is above the largest float32: γ is infinite
    assert [(event.device, event.reason) for event in hand.events(trace.Rejected)] == [
        ("b", "its staleness γ is not finite")
    ]
    assert hand.train("b").version == 2
