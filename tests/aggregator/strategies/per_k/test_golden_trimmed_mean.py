"""Trimmed mean, w ← w + trmean_β{Δ_i} in each coordinate, recomputed by hand."""

from __future__ import annotations

import pytest

from aggregator.strategies.per_k.trimmed_mean import TrimmedMean
from testbed.history import trace
from tests.aggregator.strategies.by_hand import ByHand

FIVE = {"a": (1.0, 50.0), "b": (2.0, 6.0), "c": (3.0, 4.0), "d": (10.0, 5.0), "evil": (-99.0, 0.0)}


def version_of(strategy: TrimmedMean) -> ByHand:
    hand = ByHand(strategy, (1.0, 1.0))
    hand.start(**dict.fromkeys(FIVE, 1))
    for name, delta in FIVE.items():
        hand.update(name, *delta)
    assert hand.engine.version == 1
    return hand


def test_a_version_by_hand() -> None:
    hand = version_of(TrimmedMean(k=5, beta=0.2))
    # β·K = 1 value at each end. (1 + 2 + 3)/3 = 2, without −99 and 10; (4 + 5 + 6)/3 = 5, without 0 and 50
    assert hand.model == [3.0, 6.0]
    # six values remain: one of a, two of b, two of c, one of d
    assert hand.events(trace.Aggregated)[0].weights == [
        pytest.approx(share) for share in (1 / 6, 2 / 6, 2 / 6, 1 / 6, 0.0)
    ]


@pytest.mark.parametrize(
    ("beta", "model"),
    [
        (0.0, [1 - 83 / 5, 1 + 65 / 5]),  # the plain mean: −99 + 1 + 2 + 3 + 10 = −83, 0 + 4 + 5 + 6 + 50 = 65
        (0.21, [3.0, 6.0]),  # ⌈1.05⌉ = 2 at each end: the median, 2 and 5
        (0.45, [3.0, 6.0]),  # ⌈2.25⌉ = 3 at each end would leave nothing: 2
    ],
)
def test_a_share_is_rounded_up_and_at_least_one_value_remains(beta: float, model: list[float]) -> None:
    assert version_of(TrimmedMean(k=5, beta=beta)).model == pytest.approx(model)


@pytest.mark.parametrize(("beta", "updates", "cut"), [(0.07, 100, 7), (0.29, 100, 29), (0.2, 1, 0), (0.2, 2, 0)])
def test_the_number_of_removed_values_is_not_changed_by_rounding_errors(beta: float, updates: int, cut: int) -> None:
    assert TrimmedMean(beta=beta).cut(updates) == cut
