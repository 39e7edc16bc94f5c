"""FedOpt, x ← ServerOpt(x, −Δ_t, η), recomputed by hand for each server optimiser."""

from __future__ import annotations

import math

import pytest

from aggregator.strategies.per_round.fedavg import FedAvg
from aggregator.strategies.per_round.fedopt import FedOpt
from testbed.history import trace
from tests.aggregator.strategies.by_hand import ByHand


def alone(strategy: FedAvg | FedOpt, *model: float) -> ByHand:
    """One device: Δ_t is its update."""
    hand = ByHand(strategy, model or (0.0,))
    hand.start(a=1)
    return hand


def test_two_rounds_of_fedadam_by_hand() -> None:
    hand = ByHand(FedOpt(eta=12.0, beta1=0.5, beta2=0.5, tau=1.0), (1.0, 0.0))
    hand.start(a=10, b=30)
    hand.update("a", 1.0, 1.0)
    hand.update("b", 9.0, 1.0)
    # Δ_0 = ¼·(1, 1) + ¾·(9, 1) = (7, 1);  m_0 = ½·0 + ½·(7, 1) = (3.5, 0.5)
    # v_{−1} = τ² = 1;  v_0 = ½·1 + ½·(49, 1) = (25, 1);  √v_0 + τ = (6, 2)
    # (1, 0) + 12·(3.5/6, 0.5/2) = (1 + 7, 3). With the bias correction of Adam, m and v would be twice as large
    assert hand.model == [8.0, 3.0]

    hand.update("b", -5.0, 1.0)
    hand.update("a", -5.0, 1.0)
    # m_1 = ½·(3.5, 0.5) + ½·(−5, 1) = (−0.75, 0.75);  v_1 = ½·(25, 1) + ½·(25, 1) = (25, 1)
    # (8, 3) + 12·(−0.75/6, 0.75/2) = (8 − 1.5, 3 + 4.5)
    assert hand.model == [6.5, 7.5]
    # the weights of the updates in Δ_t
    assert [made.weights for made in hand.events(trace.Aggregated)] == [[0.25, 0.75], [0.75, 0.25]]


def test_three_rounds_of_fedyogi_by_hand() -> None:
    hand = alone(FedOpt(optimizer="yogi", eta=2.0, beta1=0.5, beta2=0.5, tau=1.0))
    hand.update("a", 4.0)
    # m_0 = 2;  sign(1 − 16) = −1, so v_0 = 1 + ½·16 = 9;  2·2/(3 + 1) = 1. Adam: v_0 = ½·1 + ½·16 = 8.5
    assert hand.model == [1.0]
    hand.update("a", 3.0)
    # m_1 = ½·2 + ½·3 = 2.5;  sign(9 − 9) = 0, so v_1 = 9;  2·2.5/4 = 1.25
    assert hand.model == [2.25]
    hand.update("a", 2.0)
    # m_2 = ½·2.5 + ½·2 = 2.25;  sign(9 − 4) = 1, so v_2 = 9 − ½·4 = 7
    assert hand.model == [pytest.approx(2.25 + 2 * 2.25 / (math.sqrt(7) + 1))]


def test_two_rounds_of_fedadagrad_by_hand() -> None:
    hand = alone(FedOpt(optimizer="adagrad", eta=4.0, beta1=0.5, tau=3.0))
    hand.update("a", 4.0)
    # m_0 = 2;  v_0 = 3² + 4² = 25;  4·2/(5 + 3) = 1
    assert hand.model == [1.0]
    hand.update("a", 12.0)
    # m_1 = ½·2 + ½·12 = 7;  v_1 = 25 + 144 = 169;  4·7/(13 + 3) = 1.75
    assert hand.model == [2.75]


def test_three_rounds_of_fedavgm_by_hand() -> None:
    hand = alone(FedOpt(optimizer="momentum", eta=2.0, beta1=0.5))
    hand.update("a", 4.0)
    assert hand.model == [8.0]  # m_0 = 4;  0 + 2·4
    hand.update("a", 1.0)
    assert hand.model == [14.0]  # m_1 = ½·4 + 1 = 3;  8 + 2·3
    hand.update("a", 0.0)
    assert hand.model == [17.0]  # m_2 = 1.5;  14 + 2·1.5


@pytest.mark.parametrize(("eta", "moved"), [(None, 6.0), (1.0, 6.0), (0.5, 3.0), (2.0, 12.0)])
def test_sgd_multiplies_the_mean_by_the_rate(eta: float | None, moved: float) -> None:
    hand = ByHand(FedAvg(eta=eta), (1.0,))
    hand.start(a=10, b=30)
    hand.update("a", 12.0)
    hand.update("b", 4.0)
    assert hand.model == [1.0 + moved]  # ¼·12 + ¾·4 = 6


def test_without_a_rate_momentum_has_the_rate_1() -> None:
    hand = alone(FedAvg(optimizer="momentum", beta1=0.5))
    hand.update("a", 4.0)
    hand.update("a", 0.0)
    assert hand.model == [6.0]  # 4 + ½·4


@pytest.mark.parametrize("optimizer", ["adam", "yogi", "adagrad"])
def test_a_parameter_that_never_changes_stays(optimizer: str) -> None:
    hand = alone(FedOpt(optimizer=optimizer), 1.0, 5.0)
    for _ in range(3):
        hand.update("a", 1.0, 0.0)
    assert hand.model[0] > 1.0
    assert hand.model[1] == 5.0


def test_a_large_update_after_a_small_one_moves_each_parameter_by_a_similar_step() -> None:
    hand = alone(FedOpt(beta1=0.0, tau=1e-9, eta=0.1), 0.0, 0.0)
    hand.update("a", 1000.0, 0.001)
    # m/√v = Δ/√((1 − 0.99)·Δ²) = 10 for both:  0.1·10
    assert hand.model == pytest.approx([1.0, 1.0], rel=1e-4)
