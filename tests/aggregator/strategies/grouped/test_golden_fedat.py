"""FedAT, w = Σ_m (T_{M+1−m}/T)·w_m, recomputed by hand."""

from __future__ import annotations

import pytest

from aggregator.strategies.grouped.fedat import FedAT
from testbed.history import trace
from tests.aggregator.strategies.by_hand import ByHand


def in_tiers() -> ByHand:
    """Two tiers after the first round: a and b answered after 1 and 2 s, c and d after 5 and 6 s. The model is 2."""
    hand = ByHand(FedAT(tiers=2), (1.0,))
    hand.start(c=10, a=10, d=10, b=30)
    hand.dispatched()
    for hand.now, device, delta in ((1.0, "a", 2.0), (2.0, "b", 2.0), (5.0, "c", -2.0)):
        hand.update(device, delta)
        assert (hand.engine.version, hand.dispatched()) == (0, [])
    hand.now = 6.0
    hand.update("d", 0.0)
    # (10·2 + 30·2 − 10·2 + 10·0)/60 = 1:  1 + 1 = 2
    assert (hand.engine.version, hand.model) == (1, [2.0])
    assert hand.dispatched() == ["a", "b", "c", "d"]
    return hand


def test_three_versions_by_hand() -> None:
    hand = in_tiers()
    hand.update("b", 4.0)
    assert hand.engine.version == 1
    hand.update("a", 0.0)
    # tier 1: w_1 = (30·6 + 10·2)/40 = 5, T_1 = 2; tier 2: w_2 = 2, T_2 = 1. w = (T_2·w_1 + T_1·w_2)/3 = (5 + 2·2)/3 = 3
    assert (hand.model, hand.dispatched()) == ([3.0], ["a", "b"])
    # the weight of tier 1 is 1/3, that of b in it 3/4
    assert hand.events(trace.Aggregated)[-1].weights == [pytest.approx(0.25), pytest.approx(1 / 12)]

    hand.update("a", 2.0)
    hand.update("b", 2.0)
    # w_1 = 3 + 2 = 5, T_1 = 3.  w = (1·5 + 3·2)/4 = 2.75
    assert (hand.model, hand.dispatched()) == ([2.75], ["a", "b"])

    hand.update("c", 4.0)
    hand.update("d", 2.0)
    # tier 2 trained on version 1, which was 2: w_2 = ((2 + 4) + (2 + 2))/2 = 5, T_2 = 2.  w = (2·5 + 3·5)/5 = 5
    assert (hand.model, hand.dispatched()) == ([5.0], ["c", "d"])
    made = hand.events(trace.Aggregated)[-1]
    assert (made.staleness, made.weights) == ([2, 2], [pytest.approx(0.3), pytest.approx(0.3)])  # 3/5 · 1/2


def test_the_local_constraint_goes_with_each_job() -> None:
    hand = ByHand(FedAT(mu=0.4))
    hand.start(a=1)
    assert hand.train("a").job.proximal == 0.4


def test_tiers_have_equal_sizes_whatever_the_response_times_are() -> None:
    hand = ByHand(FedAT(tiers=3))
    hand.start(**dict.fromkeys("abcdefgh", 1))
    for place, device in enumerate("hgfedcba"):
        hand.now = 10.0**place
        hand.update(device, 0.0)
    hand.dispatched()
    # eight devices in three tiers: 3, 3 and 2. Each tier answers and is started again
    for tier in ("hgf", "edc", "ba"):
        for device in tier:
            assert hand.dispatched() == []
            hand.update(device, 0.0)
        assert hand.dispatched() == sorted(tier)


def test_a_round_of_a_tier_does_not_wait_for_a_device_that_left_or_gave_up() -> None:
    hand = in_tiers()
    hand.update("a", 3.0)
    hand.leave("b")
    # w_1 = 5, T_1 = 2:  (5 + 2·2)/3
    assert (hand.model, hand.dispatched()) == ([3.0], ["a"])
    hand.update("c", 3.0)
    hand.give_up("d")
    # w_2 = 2 + 3 = 5, T_2 = 2:  (2·5 + 2·5)/4
    assert (hand.model, hand.dispatched()) == ([5.0], ["c", "d"])


def test_a_device_that_returns_takes_part_in_the_next_round_of_its_tier() -> None:
    hand = in_tiers()
    hand.leave("b")
    hand.join("b", 30)
    assert hand.dispatched() == []
    hand.update("a", 0.0)
    assert hand.dispatched() == ["a", "b"]


def test_a_tier_whose_devices_have_all_left_begins_again_with_the_first_that_returns() -> None:
    hand = in_tiers()
    hand.leave("c")
    hand.leave("d")
    assert (hand.engine.version, hand.dispatched()) == (1, [])
    hand.join("d", 10)
    assert hand.dispatched() == ["d"]


@pytest.mark.parametrize(("seconds", "tier"), [(1.0, "ab"), (3.4, "ab"), (3.6, "cd"), (90.0, "cd")])
def test_a_device_that_joins_later_is_measured_and_counts_in_the_nearest_tier(seconds: float, tier: str) -> None:
    hand = in_tiers()  # mean response times: 1.5 and 5.5 s
    hand.join("new", 1)
    assert hand.dispatched() == ["new"]
    hand.now += seconds
    hand.update("new", 0.0)
    assert (hand.engine.version, hand.dispatched()) == (1, [])
    for device in tier:
        hand.update(device, 0.0)
    assert hand.dispatched() == sorted([*tier, "new"])
    assert len(hand.events(trace.Aggregated)[-1].tickets) == 3


def test_the_first_round_ends_without_devices_that_left_or_gave_up_and_measures_them_later() -> None:
    hand = ByHand(FedAT(tiers=2))
    hand.start(a=1, b=1, c=1)
    hand.dispatched()
    hand.leave("b")
    hand.give_up("c")
    assert hand.dispatched() == ["c"]  # it is not awaited, but it may answer in time
    hand.now = 1.0
    hand.update("a", 4.0)
    assert (hand.engine.version, hand.model, hand.dispatched()) == (1, [4.0], ["a"])
    hand.now = 2.0
    hand.update("c", 1.0)  # the only tier is that of a, whose round is open
    assert hand.dispatched() == []
    hand.update("a", 0.0)
    assert hand.dispatched() == ["a", "c"]


def test_a_first_round_without_an_answer_begins_again() -> None:
    hand = ByHand(FedAT(tiers=2))
    hand.start(a=1, b=1)
    hand.dispatched()
    hand.leave("a")
    hand.leave("b")
    hand.join("b")
    assert hand.dispatched() == ["b"]
    hand.update("b", 2.0)
    assert (hand.engine.version, hand.model, hand.dispatched()) == (1, [2.0], ["b"])


def test_a_share_of_a_tier_is_chosen_for_each_round() -> None:
    hand = ByHand(FedAT(tiers=1, fraction=0.5))
    hand.start(a=1, b=1, c=1, d=1)
    for device in "abcd":
        hand.update(device, 0.0)
    hand.dispatched()
    for _ in range(5):
        chosen = list(hand.engine.busy)
        assert len(chosen) == 2
        for device in chosen:
            hand.update(device, 0.0)
        assert len(hand.dispatched()) == 2


def test_a_first_round_that_begins_again_leaves_devices_at_work_alone() -> None:
    hand = ByHand(FedAT(tiers=2))
    hand.start(a=1, b=1)
    hand.give_up("a")
    assert hand.dispatched() == ["a", "b", "a"]
    hand.give_up("b")
    assert hand.dispatched() == ["b"]


def test_devices_that_all_return_before_the_first_answer_are_in_the_first_round() -> None:
    hand = ByHand(FedAT(tiers=2))
    hand.start(a=1, b=1)
    for device in ("a", "b"):
        hand.leave(device)
    for device in ("a", "b"):
        hand.join(device)
    hand.now = 1.0
    hand.update("a", 2.0)
    assert hand.engine.version == 0
    hand.now = 2.0
    hand.update("b", 4.0)
    assert hand.model == [3.0]
    hand.now = 3.0
    hand.update("a", 1.0)  # tier 1 alone: T = 2 and 1, so its model counts 1/3
    assert hand.engine.version == 2
