"""FedCompass: steps, groups and versions, recomputed by hand."""

from __future__ import annotations

import math

import pytest

from aggregator.strategies.grouped.fedcompass import FedCompass
from testbed.history import trace
from tests.aggregator.strategies.by_hand import ByHand


def strategy(**changes: float) -> FedCompass:
    return FedCompass(**{"q_min": 2, "q_max": 10, "lam": 1.5, "mu": 1.0, "alpha": 1.0, "a": 0.5, **changes})  # type: ignore[arg-type]


def steps(hand: ByHand, device: str) -> int:
    job = hand.train(device).job
    assert job is not None
    assert job.epochs == 0
    return job.steps


def grouped() -> ByHand:
    """a (S = 1) and b (S = 2) are in one group, which is expected at 12 s and ends at 17 s."""
    hand = ByHand(strategy())
    hand.start(a=10, b=30)  # p_a = 1/4, p_b = 3/4
    assert [steps(hand, device) for device in ("a", "b")] == [2, 2]  # Q_min
    hand.dispatched()
    hand.now = 2.0
    hand.update("a", 4.0)
    # a first job makes a version at once: 0 + 1/4·4. S_a = 2 s/2 = 1
    # no group: Q_max = 10, T_a = 2 + 10, T_max = 2 + 1.5·10
    assert (hand.model, hand.dispatched(), steps(hand, "a")) == ([1.0], ["a"], 10)
    assert hand.engine.wake_at == 17.0
    hand.now = 4.0
    hand.update("b", 8.0)
    # τ = 1:  1 + 3/4·8/√2. S_b = 4 s/2 = 2. It joins: ⌊(12 − 4)/2⌋ = 4 steps
    assert (hand.model, hand.dispatched(), steps(hand, "b")) == ([pytest.approx(1 + 6 / math.sqrt(2))], ["b"], 4)
    assert hand.engine.wake_at == 17.0
    return hand


def test_a_group_by_hand() -> None:
    hand = grouped()
    before = hand.model[0]
    hand.now = 12.0
    hand.update("b", 2.0)
    assert (hand.engine.version, hand.dispatched()) == (2, [])  # it waits for a
    hand.update("a", 4.0)
    # a has version 1, so τ = 1:  3/4·2 + 1/4·4/√2
    assert hand.model == [pytest.approx(before + 1.5 + 1 / math.sqrt(2))]
    assert hand.events(trace.Aggregated)[-1].weights == [0.75, pytest.approx(0.25 / math.sqrt(2))]
    # the fastest first: a makes a group for 22 s (10 steps), b joins it: ⌊(22 − 12)/2⌋ = 5
    assert (hand.dispatched(), steps(hand, "a"), steps(hand, "b")) == (["a", "b"], 10, 5)
    assert hand.engine.wake_at == 27.0


def test_a_group_does_not_wait_beyond_its_latest_arrival_time_and_a_late_update_counts_with_the_next_group() -> None:
    hand = grouped()
    hand.now = 12.0
    hand.update("a", 4.0)
    hand.wake()
    # 17 s: a alone, τ = 1. S_a is still 1: 10 steps, T_a = 27, T_max = 32
    assert (hand.now, hand.engine.version, hand.dispatched(), steps(hand, "a")) == (17.0, 3, ["a"], 10)
    hand.now = 20.0
    before = hand.model[0]
    hand.update("b", 8.0)
    # b is late: S_b = (20 − 4)/4 = 4. No version; it cannot join, ⌊(27 − 20)/4⌋ = 1 < 2.
    # New group: a could answer again at 32 + 10·1 = 42:  ⌊(42 − 20)/4⌋ = 5 steps, T_a = 40, T_max = 20 + 1.5·20 = 50
    assert (hand.engine.version, hand.dispatched(), steps(hand, "b")) == (3, ["b"], 5)
    assert hand.train("b").version == 3
    hand.now = 27.0
    hand.update("a", 4.0)
    # b's late update was based on version 2, a's on 3:  3/4·8/√2 + 1/4·4
    assert hand.model == [pytest.approx(before + 6 / math.sqrt(2) + 1)]
    # a joins b's group: ⌊(40 − 27)/1⌋ = 13 > 10, so it cannot. New group: b could answer again at 50 + 10·4 = 90:
    # ⌊(90 − 27)/1⌋ = 63 > 10: Q_max
    assert (hand.dispatched(), steps(hand, "a")) == (["a"], 10)
    assert hand.engine.wake_at == 42.0  # 27 + 1.5·10


def test_a_new_group_has_at_least_the_fewest_steps() -> None:
    hand = grouped()
    hand.join("slow", 1)
    assert (hand.dispatched(), steps(hand, "slow")) == (["slow"], 2)
    hand.now = 12.0
    hand.update("slow", 0.0)
    # S = (12 − 4)/2 = 4. The group of a and b is expected now, too soon to join it.
    # New group: a could answer again at 17 + 10·1 = 27:  ⌊(27 − 12)/4⌋ = 3 steps
    assert steps(hand, "slow") == 3

    other = grouped()
    other.join("slow", 1)
    other.now = 16.0
    other.update("slow", 0.0)
    # S = (16 − 4)/2 = 6:  ⌊(27 − 16)/6⌋ = 1, but Q_min is 2
    assert steps(other, "slow") == 2


@pytest.mark.parametrize(("mu", "expected"), [(1.0, 2.0), (0.9, 1.9), (0.5, 1.5)])
def test_the_speed_is_a_moving_mean(mu: float, expected: float) -> None:
    hand = ByHand(strategy(mu=mu))
    hand.start(a=1)
    hand.now = 2.0
    hand.update("a", 0.0)  # 1 s a step
    hand.now = 22.0
    hand.update("a", 0.0)  # 10 steps in 20 s: late for its group, which ended at 17 s
    assert hand.engine.wake_at == pytest.approx(22.0 + 1.5 * 10 * expected)


def test_a_group_does_not_wait_for_a_device_that_left_or_gave_up() -> None:
    for happens in (ByHand.leave, ByHand.give_up):
        hand = grouped()
        hand.now = 12.0
        hand.update("a", 4.0)
        happens(hand, "b")
        assert hand.engine.version == 3
        assert set(hand.engine.busy) == ({"a"} if happens is ByHand.leave else {"a", "b"})


def test_a_device_whose_update_waits_in_a_group_does_not_join_it_again() -> None:
    hand = grouped()
    hand.now = 5.0
    hand.update("a", 4.0)  # early: it waits for b
    hand.leave("a")
    hand.join("a", 10)
    hand.now = 12.0
    hand.update("b", 2.0)
    assert len(hand.events(trace.Aggregated)[-1].tickets) == 2  # the group does not wait for a's next update


def test_a_device_that_returns_keeps_its_speed() -> None:
    hand = grouped()
    hand.leave("b")
    hand.dispatched()
    hand.now = 6.0
    hand.join("b", 30)
    assert (hand.dispatched(), steps(hand, "b")) == (["b"], 3)  # ⌊(12 − 6)/2⌋


def test_of_several_late_updates_of_a_device_the_last_one_counts() -> None:
    hand = grouped()
    hand.now = 100.0
    hand.wake()
    hand.update("b", 1.0)
    first = hand.train("b").ticket
    hand.now = 10_000.0
    hand.wake()
    hand.update("b", 2.0)
    assert hand.engine.version == 2
    [rejected] = hand.events(trace.Rejected)
    assert (rejected.device, rejected.reason) == ("b", "its device sent a newer update, late as well")
    assert rejected.ticket < first
