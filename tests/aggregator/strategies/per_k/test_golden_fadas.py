"""FADAS, x ← x + η_t m/(√v̂ + ε), recomputed by hand."""

from __future__ import annotations

import math

import pytest

from aggregator.strategies.per_k.fadas import FADAS
from testbed.history import trace
from tests.aggregator.strategies.by_hand import ByHand


def test_three_buffers_by_hand() -> None:
    hand = ByHand(FADAS(k=2, eta=3.0, beta1=0.5, beta2=0.75, epsilon=1.0), (1.0, 0.0))
    hand.start(a=10, b=30)
    hand.dispatched()
    hand.update("a", 3.0, 0.0)
    # no device waits: a continues at once with the current model
    assert (hand.model, hand.dispatched(), hand.train("a").version) == ([1.0, 0.0], ["a"], 0)
    hand.update("b", 5.0, 0.0)
    # Δ_0 = ½·(3 + 5) = 4; samples do not count.  m_0 = ½·4 = 2;  v_0 = ¼·16 = 4 = v̂_0;  3·2/(2 + 1) = 2
    assert hand.model == [3.0, 0.0]

    hand.update("a", 1.0, 0.0)
    hand.update("b", -1.0, 0.0)
    # Δ_1 = 0;  m_1 = 1;  v_1 = ¾·4 = 3, but v̂_1 = max(4, 3) = 4;  3·1/(2 + 1) = 1. With v instead of v̂: 3/(√3 + 1)
    assert hand.model == [4.0, 0.0]

    hand.update("b", 8.0, 0.0)
    hand.update("a", 8.0, 0.0)
    # m_2 = ½·1 + ½·8 = 4.5;  v_2 = ¾·3 + ¼·64 = 18.25 = v̂_2
    assert hand.model == [pytest.approx(4 + 3 * 4.5 / (math.sqrt(18.25) + 1)), 0.0]
    assert [event.weights for event in hand.events(trace.Aggregated)] == [[0.5, 0.5]] * 3  # those in Δ_t


@pytest.mark.parametrize(
    ("tau_c", "slower", "rate"),
    [
        (3, "capped", 3.0),  # τ_max ≤ τ_c
        (2, "capped", 1 / 3),  # min(η, 1/τ_max)
        (2, "scaled", 1.0),  # η/τ_max
        (None, "capped", 3.0),
        (None, "scaled", 3.0),
    ],
)
def test_a_stale_buffer_has_a_lower_rate(tau_c: int | None, slower: str, rate: float) -> None:
    hand = ByHand(FADAS(k=2, eta=3.0, beta1=0.5, beta2=0.75, epsilon=1.0, tau_c=tau_c, slower=slower))
    hand.start(fast=1, slow=1)
    for _ in range(6):
        hand.update("fast", 0.0)  # three versions that change nothing
    hand.update("slow", 8.0)
    hand.update("fast", 0.0)
    # τ_max = 3;  Δ = ½·(8 + 0) = 4, m = 2, v̂ = 4:  rate·2/(2 + 1)
    assert hand.model == [pytest.approx(rate * 2 / 3)]


def test_a_capped_rate_changes_only_if_it_is_above_one_over_the_delay() -> None:
    strategy = FADAS(eta=0.1, tau_c=2)
    assert [strategy.rate(tau_max) for tau_max in (2, 3, 10, 20)] == [0.1, 0.1, 0.1, 0.05]


def test_one_device_alone_fills_the_buffer() -> None:
    hand = ByHand(FADAS(k=3))
    hand.start(a=1, b=1)
    hand.leave("b")
    hand.update("a", 3.0)
    hand.update("a", 6.0)
    assert hand.engine.version == 0
    hand.update("a", 0.0)
    # m = 0.1·3, √v̂ = 0.1·3:  a first step of η
    assert (hand.engine.version, hand.model) == (1, [pytest.approx(FADAS().eta)])
