"""GSGM: white list, v ← β v + ḡ over the last s, w ← w − η v (Wang et al. 2022), recomputed by hand."""

from __future__ import annotations

from aggregator.strategies.gsgm import GSGM
from testbed.history import trace
from tests.aggregator.strategies.by_hand import ByHand, check_conservation


def plain(**samples: int) -> ByHand:
    """No average and no momentum: each applied delta is added, so that the model tells which ones were."""
    hand = ByHand(GSGM(s=1, beta=0.0, eta=1.0))
    hand.start(**samples)
    hand.dispatched()
    return hand


def test_four_steps_of_partial_average_and_momentum() -> None:
    hand = ByHand(GSGM(s=2, beta=0.5, eta=0.25), (1.0, 0.0))
    hand.start(a=10, b=30)
    hand.update("a", 8.0, 0.0)
    # the window has one: −ḡ = (8, 0), −v = (8, 0), w = (1, 0) + 0.25·(8, 0) = (3, 0)
    assert hand.model == [3.0, 0.0]
    hand.update("b", 0.0, 8.0)
    # −ḡ = ((8, 0) + (0, 8))/2 = (4, 4), −v = 0.5·(8, 0) + (4, 4) = (8, 4), w = (3, 0) + (2, 1) = (5, 1)
    assert hand.model == [5.0, 1.0]
    hand.update("b", 8.0, 0.0)
    # the oldest is out: −ḡ = ((0, 8) + (8, 0))/2 = (4, 4), −v = 0.5·(8, 4) + (4, 4) = (8, 6), w = (7, 2.5)
    assert hand.model == [7.0, 2.5]
    hand.update("a", 0.0, 0.0)
    # −ḡ = ((8, 0) + (0, 0))/2 = (4, 0), −v = 0.5·(8, 6) + (4, 0) = (8, 3), w = (7, 2.5) + (2, 0.75) = (9, 3.25)
    assert hand.model == [9.0, 3.25]
    assert [made.weights for made in hand.events(trace.Aggregated)] == [[0.25], [0.125], [0.125], [0.125]]
    assert [made.staleness for made in hand.events(trace.Aggregated)] == [[0], [1], [0], [2]]


def test_the_average_is_over_what_was_applied_last_and_at_first_over_fewer() -> None:
    hand = ByHand(GSGM(s=4, beta=0.0, eta=1.0))
    hand.start(a=1)
    seen = []
    for delta in (8.0, 4.0, 0.0, 4.0, 0.0, 8.0):
        before = hand.model[0]
        hand.update("a", delta)
        seen.append(hand.model[0] - before)
    # 8/1, 12/2, 12/3, 16/4, and then 8 is out: (4 + 0 + 4 + 0)/4, (0 + 4 + 0 + 8)/4
    assert seen == [8.0, 6.0, 4.0, 4.0, 2.0, 3.0]


def test_momentum_goes_on_when_the_gradients_have_ended() -> None:
    hand = ByHand(GSGM(s=1, beta=0.5, eta=1.0))
    hand.start(a=1)
    for delta in (8.0, 0.0, 0.0):
        hand.update("a", delta)
    assert hand.model == [14.0]  # 8 + 4 + 2


def test_a_fast_device_is_blocked_until_everyone_had_a_turn() -> None:
    hand = plain(a=1, b=1)
    hand.update("a", 1.0)
    assert (hand.model, hand.dispatched()) == ([1.0], ["a"])  # a has had its turn, and works on
    hand.update("a", 10.0)
    # its result waits and it is sent nothing
    assert (hand.model, hand.engine.version, hand.dispatched(), hand.engine.busy) == ([1.0], 1, [], {"b": 0})

    hand.now = 5.0
    hand.update("b", 100.0)
    # the list is empty; the result that waited has a version of its own, at once
    assert (hand.model, hand.dispatched(), hand.engine.wake_at) == ([101.0], ["b"], 5.0)
    hand.wake()
    assert (hand.now, hand.model, hand.dispatched(), hand.train("a").version) == (5.0, [111.0], ["a"], 3)
    assert hand.engine.wake_at is None
    check_conservation(hand.engine)


def test_results_that_waited_are_applied_in_the_order_of_their_arrival() -> None:
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
    # the list is that of the next cycle, in which b and a have had their turn
    hand.update("b", 10.0)
    assert (hand.model, hand.dispatched()) == ([33.0], [])


def test_a_listed_device_that_dies_empties_the_list() -> None:
    hand = plain(a=1, b=1, c=1)
    for device, delta in (("a", 1.0), ("b", 1.0), ("a", 10.0)):
        hand.update(device, delta)
    hand.dispatched()
    hand.leave("c")
    assert (hand.model, hand.dispatched()) == ([12.0], ["a"])


def test_a_listed_device_whose_upload_was_given_up_tries_again_and_is_waited_for() -> None:
    hand = plain(a=1, b=1)
    hand.update("a", 1.0)
    hand.update("a", 10.0)
    hand.dispatched()
    hand.give_up("b")
    assert (hand.model, hand.dispatched()) == ([1.0], ["b"])
    hand.update("b", 100.0)
    hand.wake()
    assert hand.model == [111.0]


def test_the_result_of_a_device_that_died_while_it_waited_is_applied() -> None:
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
    hand.update("b", 1000.0)  # a is not waited for
    assert hand.model == [2111.0]
    check_conservation(hand.engine)


def test_who_joins_in_mid_cycle_is_listed_and_waited_for() -> None:
    hand = plain(a=1, b=1)
    hand.update("a", 1.0)
    hand.dispatched()
    hand.join("c")
    assert (hand.dispatched(), hand.train("c").version) == (["c"], 1)
    hand.update("a", 10.0)
    hand.update("b", 1.0)
    assert (hand.model, hand.dispatched()) == ([2.0], ["b"])  # c has not had its turn
    hand.update("c", 1.0)
    hand.wake()
    assert (hand.model, hand.dispatched()) == ([13.0], ["c", "a"])


def test_who_joins_between_two_cycles_does_not_block_the_others() -> None:
    hand = plain(a=1, b=1)
    hand.update("a", 1.0)
    hand.update("b", 1.0)  # everyone had a turn: the list is filled again, with a, b
    hand.join("c")  # and c
    hand.dispatched()
    hand.update("a", 10.0)
    assert (hand.model, hand.dispatched()) == ([12.0], ["a"])


def test_who_joins_when_the_list_is_empty_does_not_hold_back_what_waited() -> None:
    hand = plain(a=1, b=1)
    for device, delta in (("a", 1.0), ("a", 10.0), ("b", 100.0)):
        hand.update(device, delta)
    hand.join("c")  # before the wake that was asked for
    while hand.engine.wake_at is not None:
        hand.wake()
    assert hand.model == [111.0]
