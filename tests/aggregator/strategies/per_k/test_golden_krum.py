"""Krum and Multi-Krum, recomputed by hand."""

from __future__ import annotations

import pytest

from aggregator.strategies.per_k.krum import Krum
from testbed.history import trace
from tests.aggregator.strategies.by_hand import ByHand

FIVE = {"a": 0.0, "b": 1.0, "c": 3.0, "d": 4.0, "evil": 40.0}
# K = 5 and f = 1: K − f − 2 = 2 neighbours
#   s(a) = 1² + 3² = 10      s(b) = 1² + 2² = 5      s(c) = 1² + 2² = 5      s(d) = 1² + 3² = 10
#   s(evil) = 36² + 37² = 2665


def version_of(strategy: Krum) -> ByHand:
    hand = ByHand(strategy, (7.0,))
    hand.start(**dict.fromkeys(FIVE, 1))
    for name, delta in FIVE.items():
        hand.update(name, delta)
    assert hand.engine.version == 1
    return hand


@pytest.mark.parametrize(
    ("m", "model", "used"),
    [
        (1, 8.0, ["b"]),  # b and c have the smallest score; b arrived first
        (2, 9.0, ["b", "c"]),  # 7 + (1 + 3)/2
        (4, 9.0, ["a", "b", "c", "d"]),  # 7 + (0 + 1 + 3 + 4)/4
        (5, 16.6, [*FIVE]),  # 7 + 48/5: the plain mean
    ],
)
def test_a_version_by_hand(m: int, model: float, used: list[str]) -> None:
    hand = version_of(Krum(k=5, f=1, m=m))
    assert hand.model == [pytest.approx(model)]
    [made] = hand.events(trace.Aggregated)
    assert made.weights == [pytest.approx(1 / m)] * m
    rejected = hand.events(trace.Rejected)
    assert sorted(event.device for event in rejected) == sorted(set(FIVE) - set(used))
    assert all(event.reason == "it is too far from the other updates" for event in rejected)
    assert hand.dispatched()[-5:] == [*FIVE]  # a device whose update is not used continues, too


def test_without_byzantine_devices_each_update_has_one_more_neighbour() -> None:
    # K − 0 − 2 = 3:  s(a) = 1 + 9 + 16 = 26, s(b) = 1 + 4 + 9 = 14, s(c) = 1 + 4 + 9 = 14, s(d) = 26
    assert version_of(Krum(k=5, f=0, m=3)).model == [pytest.approx(7 + (1 + 3 + 0) / 3)]


@pytest.mark.parametrize(("k", "f"), [(1, 0), (3, 0), (4, 0), (5, 1), (6, 1), (7, 2)])
def test_f_is_by_default_the_largest_number_that_k_tolerates(k: int, f: int) -> None:
    assert Krum(k=k).byzantine == f


@pytest.mark.parametrize(("arrived", "model"), [(1, [7.0]), (2, [7.0]), (3, [7.0])])
def test_a_version_is_made_of_what_has_arrived_if_nothing_more_can_arrive(arrived: int, model: list[float]) -> None:
    """One neighbour each: a, b → 1² for both; with c, s(c) = 2². a arrived first."""
    hand = ByHand(Krum(k=5), (7.0,))
    hand.start(**dict.fromkeys(FIVE, 1))
    names = list(FIVE)
    for name in names[:arrived]:
        hand.update(name, FIVE[name])
    for name in names[arrived:]:
        hand.leave(name)
    assert (hand.engine.version, hand.model) == (1, model)
