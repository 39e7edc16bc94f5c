"""AUDG, eq. (13) of Hao et al. 2025, recomputed by hand."""

from __future__ import annotations

from aggregator.strategies.per_tick.audg import AUDG
from aggregator.strategy import DeviceInfo
from testbed.history import trace
from tests.aggregator.strategies.by_hand import ByHand, check_conservation


def staleness(hand: ByHand) -> list[list[int]]:
    return [made.staleness for made in hand.events(trace.Aggregated)]


def test_three_ticks_apply_only_the_updates_of_their_interval() -> None:
    hand = ByHand(AUDG(interval=2.0), (0.0, 4.0))
    hand.start(a=1, b=3)  # λ = 1/4, 3/4
    hand.dispatched()

    hand.now = 0.5
    hand.update("a", 4.0, 0.0)
    assert hand.model == [0.0, 4.0]  # it waits for the tick
    hand.wake()
    # I = {a}:  (0, 4) + ¼·(4, 0) = (1, 4). The λ of I are not scaled up: that would give (4, 4)
    assert (hand.now, hand.model, hand.dispatched()) == (2.0, [1.0, 4.0], ["a"])

    hand.now = 3.0
    hand.update("b", 0.0, -4.0)
    hand.wake()
    # I = {b}, on version 0:  (1, 4) + ¾·(0, −4) = (1, 1); the earlier update of a is used up
    assert (hand.now, hand.model, hand.dispatched()) == (4.0, [1.0, 1.0], ["b"])

    hand.update("b", 4.0, 8.0)
    hand.update("a", 4.0, 4.0)
    hand.wake()
    # I = {b, a}:  (1, 1) + ¾·(4, 8) + ¼·(4, 4) = (5, 8)
    assert (hand.now, hand.model, hand.dispatched()) == (6.0, [5.0, 8.0], ["b", "a"])
    assert [made.weights for made in hand.events(trace.Aggregated)] == [[0.25], [0.75], [0.75, 0.25]]
    assert staleness(hand) == [[0], [1], [0, 1]]


def test_lambda_is_a_share_of_all_devices_that_ever_joined() -> None:
    hand = ByHand(AUDG(interval=1.0))
    hand.start(a=1, b=1, c=2)
    hand.leave("c")
    hand.update("a", 8.0)
    hand.wake()
    # 8·1/(1 + 1 + 2) = 2, although c has left and b is silent
    assert hand.model == [2.0]

    hand.join("d", 4)
    hand.update("a", 8.0)
    hand.wake()
    # 2 + 8·1/(1 + 1 + 2 + 4) = 3
    assert hand.model == [3.0]


def test_normalised_weights_add_up_to_one_over_the_arrivals_of_an_interval() -> None:
    hand = ByHand(AUDG(interval=1.0, normalised=True))
    hand.start(a=1, b=3, c=4)  # λ = 1/8, 3/8, 1/2
    hand.update("a", 8.0)
    hand.wake()
    # I = {a}: ⅛·8 / ⅛ = 8; as printed, it would be 1
    assert hand.model == [8.0]
    hand.update("a", 4.0)
    hand.update("b", 8.0)
    hand.wake()
    # I = {a, b}: 8 + (⅛·4 + ⅜·8) / ½ = 8 + 7
    assert hand.model == [15.0]
    hand.wake()  # I is empty
    assert (hand.model, hand.engine.version) == ([15.0], 3)
    assert [made.weights for made in hand.events(trace.Aggregated)] == [[1.0], [0.25, 0.75], []]


def test_equal_weights_are_one_over_all_devices() -> None:
    hand = ByHand(AUDG(interval=1.0, weighting="equal"))
    hand.start(a=1, b=10, c=100, d=1000)
    hand.leave("d")
    hand.update("c", 8.0)
    hand.update("a", 4.0)
    hand.wake()
    # ¼·8 + ¼·4 = 3
    assert hand.model == [3.0]
    assert hand.events(trace.Aggregated)[0].weights == [0.25, 0.25]


def test_an_empty_interval_is_an_iteration_that_changes_nothing() -> None:
    hand = ByHand(AUDG(interval=1.0), (5.0,))
    hand.start(a=1, b=1)
    hand.dispatched()
    hand.update("a", 2.0)
    hand.wake()
    hand.wake()
    hand.wake()
    assert (hand.engine.version, hand.model, hand.dispatched()) == (3, [6.0], ["a"])
    hand.update("b", 2.0)
    hand.wake()
    assert (hand.model, staleness(hand)) == ([7.0], [[0], [], [], [3]])


def test_an_arrival_exactly_at_a_tick_belongs_to_the_next_interval() -> None:
    hand = ByHand(AUDG(interval=2.0))
    hand.start(a=1)
    hand.dispatched()
    hand.now = 2.0
    hand.update("a", 1.0)
    assert (hand.engine.version, hand.model, hand.engine.wake_at, hand.dispatched()) == (1, [0.0], 4.0, [])
    hand.wake()
    assert (hand.engine.version, hand.model, hand.dispatched()) == (2, [1.0], ["a"])
    assert staleness(hand) == [[], [1]]


def test_staleness_is_counted_from_the_model_that_the_device_has() -> None:
    hand = ByHand(AUDG(interval=1.0))
    hand.engine.join(DeviceInfo(name="a", samples=1, keeps_base=True), 0.0)
    hand.start(b=3)
    hand.wake()
    hand.heartbeat("b", trains=1)  # its download was lost: version 0 is sent again
    hand.update("a", 4.0)
    hand.update("b", 4.0)
    hand.wake()
    assert (hand.model, staleness(hand)[-1]) == ([4.0], [1, 1])

    hand.update("a", 4.0, version=0)  # version 2 was lost: it trained the model that it had, τ_i(t) is adjusted
    hand.update("b", 4.0)
    hand.wake()
    assert (hand.model, staleness(hand)[-1]) == ([8.0], [2, 0])


def test_at_the_end_every_device_is_sent_the_final_model_until_it_has_arrived() -> None:
    assert AUDG.broadcasts_final_model
    hand = ByHand(AUDG(interval=1.0))
    hand.start(a=1, b=1)
    hand.update("a", 2.0)
    hand.wake()
    hand.dispatched()
    hand.engine.broadcast_final(hand.now)
    assert (hand.dispatched(), hand.engine.pending_final) == (["a", "b"], 2)
    assert [(hand.train(device).version, hand.train(device).job) for device in ("a", "b")] == [(1, None), (1, None)]
    hand.give_up("a")  # it has arrived: there is nothing to train
    hand.heartbeat("b", trains=2)  # two messages have reached it, and this one has not
    assert (hand.dispatched(), hand.engine.pending_final) == (["b"], 1)
    hand.give_up("b")
    assert (hand.engine.pending_final, hand.engine.tally.delivered) == (0, 2)
    check_conservation(hand.engine)
