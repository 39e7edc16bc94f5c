"""SAFL, x ← x + (1/K) Σ Δ_n over the first K updates (baseline of Chen et al. 2024), recomputed by hand."""

from __future__ import annotations

from aggregator.strategies.per_k.safl import SAFL
from testbed.history import trace
from tests.aggregator.strategies.by_hand import ByHand


def of_k(k: int, **samples: int) -> ByHand:
    hand = ByHand(SAFL(k=k), (0.0, 0.0))
    hand.start(**samples)
    hand.dispatched()
    return hand


def test_three_steps_are_the_mean_of_the_first_k_and_only_those_devices_get_the_model() -> None:
    hand = of_k(2, a=10, b=30, c=20)

    hand.update("b", 4.0, 4.0)
    assert (hand.model, hand.dispatched()) == ([0.0, 0.0], [])  # b waits for the second update
    hand.update("a", 2.0, 0.0)
    # S = {b, a}:  (1/2)·((4, 4) + (2, 0)) = (3, 2); samples do not count
    assert (hand.model, hand.dispatched()) == ([3.0, 2.0], ["b", "a"])
    assert hand.engine.busy == {"a": 1, "b": 1, "c": 0}  # c continues with the model that it has

    hand.update("c", 0.0, -2.0)
    hand.update("a", 2.0, 0.0)
    # S = {c, a}:  (3, 2) + (1/2)·((0, −2) + (2, 0)) = (4, 1); c is stale and has full weight
    assert (hand.model, hand.dispatched()) == ([4.0, 1.0], ["c", "a"])

    hand.update("b", 8.0, 0.0)
    hand.update("c", 0.0, 8.0)
    # S = {b, c}:  (4, 1) + (1/2)·((8, 0) + (0, 8)) = (8, 5)
    assert (hand.model, hand.dispatched()) == ([8.0, 5.0], ["b", "c"])
    made = hand.events(trace.Aggregated)
    assert [event.weights for event in made] == [[0.5, 0.5]] * 3
    assert [event.staleness for event in made] == [[0, 0], [1, 0], [1, 0]]
    assert hand.engine.tally.superseded == 0


def test_k_of_one_is_asynchronous_and_k_of_all_is_synchronous() -> None:
    one = of_k(1, a=1, b=1)
    one.update("a", 2.0, 0.0)
    one.update("b", 0.0, 2.0)
    assert (one.model, one.engine.version) == ([2.0, 2.0], 2)

    everyone = of_k(2, a=1, b=1)
    everyone.update("a", 2.0, 0.0)
    everyone.update("b", 0.0, 2.0)
    assert (everyone.model, everyone.engine.version) == ([1.0, 1.0], 1)


def test_when_fewer_than_k_can_arrive_the_mean_is_over_those_that_have_arrived() -> None:
    hand = of_k(3, a=1, b=1, c=1)
    hand.update("a", 2.0, 0.0)
    hand.update("b", 4.0, 0.0)
    assert hand.engine.version == 0
    hand.leave("c")
    # (2 + 4)/2, not /3
    assert (hand.model, hand.dispatched()) == ([3.0, 0.0], ["a", "b"])

    hand.update("a", 1.0, 0.0)
    hand.join("c")
    hand.update("b", 2.0, 0.0)
    assert hand.engine.version == 1  # three can arrive again
    hand.update("c", 3.0, 0.0)
    assert hand.model == [5.0, 0.0]  # 3 + (1 + 2 + 3)/3


def test_the_update_of_a_device_that_has_left_counts_and_it_is_sent_nothing() -> None:
    hand = of_k(2, a=1, b=1, c=1)
    hand.update("a", 2.0, 0.0)
    hand.leave("a")
    hand.update("b", 0.0, 2.0)
    assert (hand.model, hand.dispatched()) == ([1.0, 1.0], ["b"])
