"""GSGM: white list, v ← β v + ḡ over the last s, w ← w − η v (Wang et al. 2022), recomputed by hand."""

from __future__ import annotations

from aggregator.strategies.per_update.gsgm import GSGM
from testbed.history import trace
from tests.aggregator.strategies.by_hand import ByHand, check_conservation


def plain(**samples: int) -> ByHand:
    """No average and no momentum: each applied delta is added, so the model shows which ones were applied."""
    hand = ByHand(GSGM(s=1, beta=0.0, eta=1.0))
    hand.start(**samples)
    hand.dispatched()
    return hand


def test_four_steps_of_partial_average_and_momentum() -> None:
    hand = ByHand(GSGM(s=2, beta=0.5, eta=0.25), (1.0, 0.0))
    hand.start(a=10, b=30)
    hand.update("a", 8.0, 0.0)
    # one gradient in the window: −ḡ = (8, 0), −v = (8, 0), w = (1, 0) + 0.25·(8, 0) = (3, 0)
    assert hand.model == [3.0, 0.0]
    hand.update("b", 0.0, 8.0)
    # −ḡ = ((8, 0) + (0, 8))/2 = (4, 4), −v = 0.5·(8, 0) + (4, 4) = (8, 4), w = (3, 0) + (2, 1) = (5, 1)
    assert hand.model == [5.0, 1.0]
    hand.update("b", 8.0, 0.0)
    # the oldest has left the window: −ḡ = ((0, 8) + (8, 0))/2 = (4, 4), −v = 0.5·(8, 4) + (4, 4) = (8, 6), w = (7, 2.5)
    assert hand.model == [7.0, 2.5]
    hand.update("a", 0.0, 0.0)
    # −ḡ = ((8, 0) + (0, 0))/2 = (4, 0), −v = 0.5·(8, 6) + (4, 0) = (8, 3), w = (7, 2.5) + (2, 0.75) = (9, 3.25)
    assert hand.model == [9.0, 3.25]
    assert [made.weights for made in hand.events(trace.Aggregated)] == [[0.25], [0.125], [0.125], [0.125]]
    assert [made.staleness for made in hand.events(trace.Aggregated)] == [[0], [1], [0], [2]]


def test_the_average_is_over_the_last_s_applied_gradients_and_at_first_over_fewer() -> None:
    hand = ByHand(GSGM(s=4, beta=0.0, eta=1.0))
    hand.start(a=1)
    seen = []
    for delta in (8.0, 4.0, 0.0, 4.0, 0.0, 8.0):
        before = hand.model[0]
        hand.update("a", delta)
        seen.append(hand.model[0] - before)
    # 8/1, 12/2, 12/3, 16/4, and then 8 has left: (4 + 0 + 4 + 0)/4, (0 + 4 + 0 + 8)/4
    assert seen == [8.0, 6.0, 4.0, 4.0, 2.0, 3.0]


def test_momentum_continues_when_the_gradients_are_zero() -> None:
    hand = ByHand(GSGM(s=1, beta=0.5, eta=1.0))
    hand.start(a=1)
    for delta in (8.0, 0.0, 0.0):
        hand.update("a", delta)
    assert hand.model == [14.0]  # 8 + 4 + 2


def test_a_fast_device_is_blocked_until_every_device_has_delivered() -> None:
    hand = plain(a=1, b=1)
    hand.update("a", 1.0)
    assert (hand.model, hand.dispatched()) == ([1.0], ["a"])  # a has left the list, and continues
    hand.update("a", 10.0)
    # its update waits, and it is sent nothing
    assert (hand.model, hand.engine.version, hand.dispatched(), hand.engine.busy) == ([1.0], 1, [], {"b": 0})

    hand.now = 5.0
    hand.update("b", 100.0)
    # the list is empty; the update that waited makes a version of its own at once
    assert (hand.model, hand.dispatched(), hand.engine.wake_at) == ([101.0], ["b"], 5.0)
    hand.wake()
    assert (hand.now, hand.model, hand.dispatched(), hand.train("a").version) == (5.0, [111.0], ["a"], 3)
    assert hand.engine.wake_at is None
    check_conservation(hand.engine)


def test_updates_that_waited_are_applied_in_the_order_of_their_arrival() -> None:
    hand = plain(a=1, b=1, c=1)
    for device, delta in (("a", 1.0), ("b", 1.0), ("b", 10.0), ("a", 20.0)):
        hand.update(device, delta)
    assert (hand.model, hand.dispatched()) == ([2.0], ["a", "b"])
    hand.update("c", 1.0)
    models = [hand.model]
    while hand.engine.wake_at is not None:
        hand.wake()
        models.append(hand.model)
    assert (models, hand.dispatched()) == ([[3.0], [13.0], [33.0]], ["c", "b", "a"])
    # this is the next list, which b and a have left
    hand.update("b", 10.0)
    assert (hand.model, hand.dispatched()) == ([33.0], [])


def test_a_listed_device_that_leaves_empties_the_list() -> None:
    hand = plain(a=1, b=1, c=1)
    for device, delta in (("a", 1.0), ("b", 1.0), ("a", 10.0)):
        hand.update(device, delta)
    hand.dispatched()
    hand.leave("c")
    assert (hand.model, hand.dispatched()) == ([12.0], ["a"])


def test_a_listed_device_that_gave_up_its_upload_trains_again_and_the_others_wait() -> None:
    hand = plain(a=1, b=1)
    hand.update("a", 1.0)
    hand.update("a", 10.0)
    hand.dispatched()
    hand.give_up("b")
    assert (hand.model, hand.dispatched()) == ([1.0], ["b"])
    hand.update("b", 100.0)
    hand.wake()
    assert hand.model == [111.0]


def test_a_waiting_update_is_applied_although_its_device_has_left() -> None:
    hand = plain(a=1, b=1)
    hand.update("a", 1.0)
    hand.update("a", 10.0)
    hand.leave("a")
    assert hand.model == [1.0]
    hand.dispatched()
    hand.update("b", 100.0)
    hand.wake()
    assert (hand.model, hand.dispatched(), hand.engine.tally.lost) == ([111.0], ["b"], 0)
    hand.update("b", 1000.0)
    hand.update("b", 1000.0)  # the list does not wait for a
    assert hand.model == [2111.0]
    check_conservation(hand.engine)


def test_a_device_that_joins_before_the_list_is_empty_enters_it() -> None:
    hand = plain(a=1, b=1)
    hand.update("a", 1.0)
    hand.dispatched()
    hand.join("c")
    assert (hand.dispatched(), hand.train("c").version) == (["c"], 1)
    hand.update("a", 10.0)
    hand.update("b", 1.0)
    assert (hand.model, hand.dispatched()) == ([2.0], ["b"])  # c is still listed
    hand.update("c", 1.0)
    hand.wake()
    assert (hand.model, hand.dispatched()) == ([13.0], ["c", "a"])


def test_a_device_that_joins_a_full_list_does_not_block_the_others() -> None:
    hand = plain(a=1, b=1)
    hand.update("a", 1.0)
    hand.update("b", 1.0)  # all have delivered: the list is filled again with a and b
    hand.join("c")  # and c
    hand.dispatched()
    hand.update("a", 10.0)
    assert (hand.model, hand.dispatched()) == ([12.0], ["a"])


def test_a_device_that_joins_before_the_wake_does_not_block_updates_that_waited() -> None:
    hand = plain(a=1, b=1)
    for device, delta in (("a", 1.0), ("a", 10.0), ("b", 100.0)):
        hand.update(device, delta)
    hand.join("c")  # before the wake
    while hand.engine.wake_at is not None:
        hand.wake()
    assert hand.model == [111.0]
