"""PSURDG, eq. (46) of Hao et al. 2025, recomputed by hand."""

from __future__ import annotations

from aggregator.strategies.per_tick.psurdg import PSURDG
from testbed.history import trace
from tests.aggregator.strategies.by_hand import ByHand, check_conservation


def test_five_ticks_apply_the_last_gradient_of_every_device_new_or_not() -> None:
    hand = ByHand(PSURDG(interval=2.0), (0.0, 4.0))
    hand.start(a=1, b=3)  # λ = 1/4, 3/4
    hand.dispatched()

    hand.update("a", 4.0, 0.0)
    hand.wake()
    # b has sent nothing, its gradient is 0:  (0, 4) + ¼·(4, 0) = (1, 4)
    assert (hand.model, hand.dispatched()) == ([1.0, 4.0], ["a"])

    hand.wake()
    # nothing arrived, and the model moves again:  (1, 4) + ¼·(4, 0) = (2, 4)
    assert (hand.model, hand.dispatched()) == ([2.0, 4.0], [])

    hand.update("b", 0.0, -4.0)
    hand.wake()
    # (2, 4) + ¼·(4, 0) + ¾·(0, −4) = (3, 1)
    assert (hand.model, hand.dispatched()) == ([3.0, 1.0], ["b"])

    hand.update("a", -8.0, 4.0)
    hand.wake()
    # the new one of a replaces its old one:  (3, 1) + ¼·(−8, 4) + ¾·(0, −4) = (1, −1)
    assert (hand.model, hand.dispatched()) == ([1.0, -1.0], ["a"])

    hand.wake()
    # (1, −1) + ¼·(−8, 4) + ¾·(0, −4) = (−1, −3)
    assert (hand.model, hand.dispatched()) == ([-1.0, -3.0], [])

    made = hand.events(trace.Aggregated)
    # a reused update is named again; staleness is of new updates (a was sent ticket 3 with version 1)
    assert [event.tickets for event in made] == [[1], [1], [1, 2], [3, 2], [3, 2]]
    assert [event.weights for event in made] == [[0.25], [0.25], [0.25, 0.75], [0.25, 0.75], [0.25, 0.75]]
    assert [event.staleness for event in made] == [[0], [], [2], [2], []]
    assert hand.engine.tally.applied == 3  # each counts once
    check_conservation(hand.engine)


def test_the_model_does_not_move_before_the_first_update() -> None:
    hand = ByHand(PSURDG(interval=1.0), (7.0,))
    hand.start(a=1)
    hand.wake()
    hand.wake()
    assert (hand.engine.version, hand.model) == (2, [7.0])
    assert [event.tickets for event in hand.events(trace.Aggregated)] == [[], []]


def test_the_gradient_of_a_device_that_has_left_still_counts() -> None:
    hand = ByHand(PSURDG(interval=1.0))
    hand.start(a=1, b=3)
    hand.update("a", 4.0)
    hand.leave("a")
    hand.wake()  # ¼·4 = 1
    hand.leave("b")
    hand.wake()  # even without any device
    assert hand.model == [2.0]


def test_a_new_device_has_its_share_of_lambda_before_its_first_update() -> None:
    hand = ByHand(PSURDG(interval=1.0))
    hand.start(a=1, b=1)
    hand.update("a", 8.0)
    hand.wake()  # ½·8 = 4
    hand.join("c", 2)
    hand.wake()  # 4 + ¼·8 = 6
    hand.update("c", 4.0)
    hand.wake()  # 6 + ¼·8 + ½·4 = 10
    assert hand.model == [10.0]
    assert [event.weights for event in hand.events(trace.Aggregated)] == [[0.5], [0.25], [0.25, 0.5]]


def test_normalised_weights_add_up_to_one_over_the_devices_that_have_sent() -> None:
    hand = ByHand(PSURDG(interval=1.0, normalised=True))
    hand.start(a=1, b=3, c=4)  # λ = 1/8, 3/8, 1/2
    hand.wake()
    assert hand.model == [0.0]  # none has sent
    hand.update("a", 8.0)
    hand.wake()  # ⅛·8 / ⅛ = 8
    hand.update("b", 4.0)
    hand.wake()  # 8 + (⅛·8 + ⅜·4) / ½ = 13, although a has sent nothing new
    assert hand.model == [13.0]
    hand.update("c", 2.0)
    hand.wake()  # all have sent, Σλ = 1: 13 + ⅛·8 + ⅜·4 + ½·2 = 16.5, as printed
    assert hand.model == [16.5]
    hand.join("d", 8)  # λ = 1/16, 3/16, 1/4, 1/2; it has sent nothing, and the others continue as before
    hand.wake()
    assert hand.model == [20.0]


def test_equal_weights_are_one_over_all_devices() -> None:
    hand = ByHand(PSURDG(interval=1.0, weighting="equal"))
    hand.start(a=1, b=10, c=100, d=1000)
    hand.update("b", 8.0)
    hand.wake()
    hand.update("d", 4.0)
    hand.wake()
    # ¼·8 = 2, then 2 + ¼·8 + ¼·4 = 5
    assert hand.model == [5.0]


def test_the_second_of_two_gradients_in_one_interval_counts() -> None:
    hand = ByHand(PSURDG(interval=1.0))
    hand.start(a=1, b=1)
    hand.update("a", 100.0)
    hand.leave("a")
    hand.join("a")
    hand.update("a", 2.0)
    hand.wake()
    hand.wake()
    assert hand.model == [2.0]  # ½·2, twice
    check_conservation(hand.engine)


def test_an_arrival_exactly_at_a_tick_belongs_to_the_next_interval() -> None:
    hand = ByHand(PSURDG(interval=2.0))
    hand.start(a=1)
    hand.now = 2.0
    hand.update("a", 3.0)
    assert (hand.engine.version, hand.model) == (1, [0.0])
    hand.wake()
    assert (hand.now, hand.model) == (4.0, [3.0])


def test_the_run_ends_with_a_broadcast_of_the_final_model() -> None:
    assert PSURDG.broadcasts_final_model
