"""CA²FL, x ← x + η (h + (1/K) Σ (Δ_i − h^i)), recomputed by hand."""

from __future__ import annotations

import pytest

from aggregator.strategies.per_k.ca2fl import CA2FL
from testbed.history import trace
from tests.aggregator.strategies.by_hand import ByHand


def test_three_buffers_by_hand_the_second_filled_by_one_fast_device() -> None:
    hand = ByHand(CA2FL(k=2), (1.0, 0.0))
    hand.start(a=10, b=30)
    hand.dispatched()
    hand.update("a", 4.0, 2.0)
    # no device waits: a continues at once with the current model
    assert (hand.model, hand.dispatched(), hand.train("a").version) == ([1.0, 0.0], ["a"], 0)
    hand.update("b", 8.0, 0.0)
    # h_0 = 0:  v_0 = ½·((4, 2) + (8, 0)) = (6, 1); samples do not count
    assert hand.model == [7.0, 1.0]

    hand.update("a", 2.0, 2.0)
    hand.update("a", 6.0, 4.0)
    # h_1 = ½·((4, 2) + (8, 0)) = (6, 1), and h_1^a = (4, 2) for both updates:
    # v_1 = (6, 1) + ½·((2 − 4, 2 − 2) + (6 − 4, 4 − 2)) = (6, 2)
    assert hand.model == [13.0, 3.0]

    hand.update("b", 0.0, 0.0)
    hand.update("a", 6.0, 4.0)
    # the later update of a is cached:  h_2 = ½·((6, 4) + (8, 0)) = (7, 2)
    # v_2 = (7, 2) + ½·((0 − 8, 0 − 0) + (6 − 6, 4 − 4)) = (3, 2)
    assert hand.model == [16.0, 5.0]
    assert [event.weights for event in hand.events(trace.Aggregated)] == [[0.5, 0.5]] * 3


def test_a_device_that_sends_nothing_still_counts_by_its_cached_update() -> None:
    hand = ByHand(CA2FL(k=2))
    hand.start(fast=1, slow=1)
    hand.update("slow", 8.0)
    hand.update("fast", 2.0)
    assert hand.model == [5.0]
    hand.leave("slow")
    hand.update("fast", 2.0)
    hand.update("fast", 2.0)
    # h = ½·(8 + 2) = 5, the correction is 0; FedBuff would move by 2
    assert hand.model == [10.0]


def test_devices_without_an_update_count_as_zero_in_h() -> None:
    hand = ByHand(CA2FL(k=1, eta=1.0))
    hand.start(a=1, b=1, c=1, d=1)
    hand.update("a", 8.0)
    assert hand.model == [8.0]  # h_0 = 0
    hand.update("b", 4.0)
    assert hand.model == [8.0 + 2.0 + 4.0]  # h_1 = ¼·8
    hand.join("e")
    hand.update("b", 4.0)
    assert hand.model == [pytest.approx(14.0 + 2.4)]  # h_2 = (8 + 4)/5; the correction is 0


@pytest.mark.parametrize(("eta", "moved"), [(1.0, 3.0), (0.5, 1.5)])
def test_the_server_rate_multiplies_the_whole_step(eta: float, moved: float) -> None:
    hand = ByHand(CA2FL(k=1, eta=eta))
    hand.start(a=1)
    hand.update("a", 0.0)
    hand.update("a", 3.0)
    assert hand.model == [moved]  # h = 0
    hand.update("a", 3.0)
    assert hand.model == [2 * moved]  # h = 3, the correction is 0
    assert [event.weights for event in hand.events(trace.Aggregated)] == [[eta]] * 3


def test_without_a_rate_an_update_that_is_applied_with_each_buffer_is_applied_once_in_sum() -> None:
    hand = ByHand(CA2FL(k=1))
    hand.start(a=1, b=1, c=1, d=1)
    for device in ("a", "b", "c", "d"):
        hand.update(device, 8.0)
    before = hand.model[0]
    for device in ("a", "b", "c", "d"):
        hand.update(device, 8.0)
    # η = ¼, h = 8, the corrections are 0:  four buffers move by ¼·8 each
    assert hand.model == [before + 8.0]


def test_a_buffer_that_cannot_be_filled_is_divided_by_its_number_of_updates() -> None:
    hand = ByHand(CA2FL(k=4))
    hand.start(a=1, b=1)
    hand.update("a", 3.0)
    hand.update("b", 6.0)
    hand.leave("a")
    hand.leave("b")
    assert (hand.engine.version, hand.model) == (1, [4.5])
