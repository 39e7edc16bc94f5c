"""SAFL-SC: SAFL that restarts devices more than τ_0 behind (baseline of Chen et al. 2024), recomputed by hand."""

from __future__ import annotations

from aggregator.strategies.per_k.safl_sc import SAFLSC
from testbed.history import trace
from tests.aggregator.strategies.by_hand import ByHand, check_conservation


def test_steps_are_the_mean_of_k_with_full_weights_up_to_the_threshold() -> None:
    hand = ByHand(SAFLSC(k=2, tau_0=1), (0.0, 0.0))
    hand.start(a=10, b=30, c=20)
    hand.dispatched()
    hand.update("a", 2.0, 0.0)
    hand.update("b", 4.0, 4.0)
    # (1/2)·((2, 0) + (4, 4)) = (3, 2). c is 1 behind now, which is τ_0: it continues
    assert (hand.model, hand.dispatched()) == ([3.0, 2.0], ["a", "b"])
    hand.update("c", 0.0, -2.0)
    hand.update("b", 2.0, 0.0)
    # (3, 2) + (1/2)·((0, −2) + (2, 0)) = (4, 1)
    assert (hand.model, hand.dispatched()) == ([4.0, 1.0], ["c", "b"])
    assert [made.staleness for made in hand.events(trace.Aggregated)] == [[0, 0], [1, 0]]
    assert [made.weights for made in hand.events(trace.Aggregated)] == [[0.5, 0.5], [0.5, 0.5]]
    assert hand.engine.tally.superseded == 0


def test_a_device_more_than_the_threshold_behind_the_new_version_is_restarted_on_it() -> None:
    hand = ByHand(SAFLSC(k=1, tau_0=2))
    hand.start(fast=1, slow=1)
    old = hand.train("slow")
    hand.dispatched()
    hand.update("fast", 1.0)  # slow is 1 behind
    hand.update("fast", 1.0)  # 2 behind, which is τ_0
    assert (hand.dispatched(), hand.events(trace.Superseded)) == (["fast", "fast"], [])

    hand.now = 7.0
    hand.update("fast", 1.0)  # version 3 is made: 3 behind
    assert hand.dispatched() == ["fast", "slow"]
    assert hand.events(trace.Superseded) == [trace.Superseded(t=7.0, device="slow", ticket=old.ticket)]
    assert (hand.train("slow").version, hand.engine.tally.superseded) == (3, 1)

    hand.update("slow", 100.0, train=old)  # it was under way
    assert (hand.model, hand.engine.version) == ([3.0], 3)
    assert [(event.device, event.ticket) for event in hand.events(trace.Ignored)] == [("slow", old.ticket)]

    hand.update("slow", 2.0)  # for the new ticket, and fresh
    assert (hand.model, hand.events(trace.Aggregated)[-1].staleness) == ([5.0], [0])
    check_conservation(hand.engine)


def test_the_count_starts_over_with_each_restart() -> None:
    hand = ByHand(SAFLSC(k=1, tau_0=2))
    hand.start(fast=1, slow=1)
    restarted = []
    for number in range(1, 10):
        hand.dispatched()
        hand.update("fast", 0.0)
        restarted += [number] if "slow" in hand.dispatched() else []
    assert restarted == [3, 6, 9]


def test_a_device_that_waits_for_the_version_is_not_restarted_twice() -> None:
    hand = ByHand(SAFLSC(k=2, tau_0=0))
    hand.start(a=1, b=1, c=1)
    hand.dispatched()
    hand.update("a", 2.0)
    assert hand.dispatched() == []
    hand.update("b", 4.0)
    # τ_0 = 0: every version restarts all other devices, and its two contributors get it once
    assert (hand.model, hand.dispatched()) == ([3.0], ["a", "b", "c"])
    assert [event.device for event in hand.events(trace.Superseded)] == ["c"]
    assert hand.engine.busy == {"a": 1, "b": 1, "c": 1}
