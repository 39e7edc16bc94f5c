"""FedBuff, x ← x + η_s·(1/K) Σ Δ_i/√(1 + τ_i), recomputed by hand."""

from __future__ import annotations

import math

import pytest

from aggregator.strategies.per_k.fedbuff import FedBuff
from testbed.history import trace
from tests.aggregator.strategies.by_hand import ByHand


def test_three_buffers_by_hand_the_first_filled_by_one_fast_device() -> None:
    hand = ByHand(FedBuff(k=2), (1.0, 0.0))
    hand.start(a=10, b=30)
    hand.dispatched()

    hand.update("a", 4.0, 0.0)
    # no device waits: a continues at once with the current model
    assert (hand.model, hand.dispatched(), hand.train("a").version) == ([1.0, 0.0], ["a"], 0)
    hand.update("a", 8.0, 2.0)
    # both fresh:  (1, 0) + (1/2)·((4, 0) + (8, 2)) = (7, 1); samples do not count
    assert (hand.model, hand.dispatched(), hand.train("a").version) == ([7.0, 1.0], ["a"], 1)

    hand.update("b", 0.0, 4.0)
    # τ = 1; b continues with version 1, which does not contain its update
    assert (hand.model, hand.dispatched(), hand.train("b").version) == ([7.0, 1.0], ["b"], 1)
    hand.update("a", 2.0, 0.0)
    # (7, 1) + (1/2)·((0, 4)/√2 + (2, 0)) = (8, 1 + √2)
    assert hand.model == [8.0, pytest.approx(1 + math.sqrt(2))]

    hand.update("a", 0.0, 0.0)
    hand.update("b", 2.0, 0.0)
    # b: version 1 arrives at 2, τ = 1:  8 + (1/2)·(0 + 2/√2) = 8 + 1/√2
    assert hand.model == pytest.approx([8 + 1 / math.sqrt(2), 1 + math.sqrt(2)])
    made = hand.events(trace.Aggregated)
    assert [event.staleness for event in made] == [[0, 0], [1, 0], [0, 1]]
    damped = pytest.approx(0.5 / math.sqrt(2))
    assert [event.weights for event in made] == [[0.5, 0.5], [damped, 0.5], [0.5, damped]]


@pytest.mark.parametrize(("eta", "moved"), [(1.0, 3.0), (0.5, 1.5), (2.0, 6.0)])
def test_a_stale_buffer_makes_a_smaller_step(eta: float, moved: float) -> None:
    hand = ByHand(FedBuff(k=2, eta=eta))
    hand.start(fast=1, slow=1)
    for _ in range(6):
        hand.update("fast", 0.0)  # three versions that change nothing
    hand.update("slow", 8.0)
    hand.update("fast", 2.0)
    # τ = 3: 1/√4 = 1/2. η_s·(1/2)·(8/2 + 2) = 3 η_s; divided by the weights, 1/2 + 1, it would be 4 η_s
    assert hand.model == [moved]
    assert hand.events(trace.Aggregated)[-1].weights == [eta * 0.25, eta * 0.5]


def test_a_device_that_is_busy_when_the_buffer_is_used_is_not_restarted() -> None:
    hand = ByHand(FedBuff(k=2))
    hand.start(a=1, b=1, c=1)
    hand.update("a", 1.0)
    hand.dispatched()
    hand.update("b", 3.0)
    assert (hand.model, hand.dispatched(), hand.engine.tally.superseded) == ([2.0], ["b"], 0)
    assert hand.engine.busy == {"a": 0, "b": 1, "c": 0}


def test_one_device_alone_fills_the_buffer() -> None:
    hand = ByHand(FedBuff(k=3))
    hand.start(a=1, b=1)
    hand.leave("b")
    hand.update("a", 3.0)
    hand.update("a", 6.0)
    assert hand.engine.version == 0
    hand.update("a", 0.0)
    assert (hand.engine.version, hand.model) == (1, [3.0])  # (3 + 6 + 0)/3


def test_a_buffer_that_cannot_be_filled_is_divided_by_its_number_of_updates() -> None:
    hand = ByHand(FedBuff(k=4))
    hand.start(a=1, b=1)
    hand.update("a", 3.0)
    hand.update("b", 6.0)
    hand.leave("a")
    assert hand.engine.version == 0  # b can fill it
    hand.leave("b")
    assert (hand.engine.version, hand.model) == (1, [4.5])


def test_two_buffers_by_hand_with_adam_on_the_server() -> None:
    hand = ByHand(FedBuff(k=2, optimizer="adam", eta=12.0, beta1=0.5, beta2=0.5, tau=1.0))
    hand.start(fast=1, slow=1)
    hand.update("fast", 8.0)
    hand.update("fast", 6.0)
    # Δ_0 = ½·(8 + 6) = 7;  m_0 = 3.5;  v_0 = ½·τ² + ½·49 = 25;  12·3.5/(5 + 1) = 7
    assert hand.model == [7.0]
    hand.update("slow", -5 * math.sqrt(2))
    hand.update("fast", -5.0)
    # τ = 1:  Δ_1 = ½·(−5√2/√2 − 5) = −5;  m_1 = ½·3.5 − ½·5 = −0.75;  v_1 = ½·25 + ½·25;  7 − 12·0.75/6 = 5.5
    assert hand.model == [pytest.approx(5.5)]
    # the weights of the updates in Δ_t: η is not in them
    damped = pytest.approx(0.5 / math.sqrt(2))
    assert [made.weights for made in hand.events(trace.Aggregated)] == [[0.5, 0.5], [damped, 0.5]]


def test_two_buffers_by_hand_with_momentum_on_the_server() -> None:
    hand = ByHand(FedBuff(k=2, optimizer="momentum", eta=1.0, beta1=0.5))
    hand.start(a=1)
    hand.update("a", 4.0)
    hand.update("a", 2.0)
    assert hand.model == [3.0]  # m_0 = Δ_0 = ½·(4 + 2)
    hand.update("a", 1.0)
    hand.update("a", 1.0)
    assert hand.model == [5.5]  # m_1 = ½·3 + 1 = 2.5


def test_without_a_rate_the_momentum_steps_of_one_update_add_up_to_it() -> None:
    hand = ByHand(FedBuff(k=1, optimizer="momentum", beta1=0.5))
    hand.start(a=1)
    hand.update("a", 4.0)
    assert hand.model == [2.0]  # η = 1 − ½
    for _ in range(40):
        hand.update("a", 0.0)
    assert hand.model == [pytest.approx(4.0)]  # 2 + 1 + ½ + …
