"""The bound on the norm of updates (``aggregator.clip``)."""

from __future__ import annotations

import numpy as np
import pytest

from aggregator.engine.engine import Engine
from aggregator.strategies.per_k.fedbuff import FedBuff
from aggregator.strategies.per_tick.audg import AUDG
from aggregator.strategies.per_tick.psurdg import PSURDG
from aggregator.strategies.per_update.fedasync import FedAsync
from aggregator.strategy import Strategy
from testbed.history import trace
from testbed.profile.schema import UpdateBound
from tests.aggregator.engine.test_engine import Scripted
from tests.aggregator.strategies.by_hand import ByHand, check_conservation


def started(strategy: Strategy, bound: UpdateBound) -> ByHand:
    """Devices a and b are busy, and the engine has a bound."""
    hand = ByHand(strategy, (0.0, 0.0))
    assert isinstance(hand.engine, Engine)
    hand.engine._bound = bound
    hand.start(a=1, b=1)
    hand.dispatched()
    return hand


def test_a_larger_update_is_scaled_down_and_keeps_its_direction() -> None:
    hand = started(Scripted(), UpdateBound(clip=5.0))
    hand.update("a", 3e17, -4e17)
    assert hand.model == pytest.approx([3.0, -4.0])
    [arrived] = hand.events(trace.Arrived)
    assert arrived.clipped == pytest.approx(5e17)
    check_conservation(hand.engine)


def test_an_update_within_the_bound_stays_as_it_is_bit_by_bit() -> None:
    hand = started(Scripted(), UpdateBound(clip=5.0))
    hand.update("a", 3.0, -4.0)
    hand.update("b", 0.1, 0.2)
    assert hand.model == (np.float32([3.0, -4.0]) + np.float32([0.1, 0.2])).tolist()
    assert [event.clipped for event in hand.events(trace.Arrived)] == [None, None]


def test_what_was_scaled_down_is_not_scaled_down_again() -> None:
    """By the aggregator, in the result of a cluster head."""
    hand = started(Scripted(), UpdateBound(clip=0.3))
    hand.update("a", 1.0, 2.0)
    hand.update("b", *np.float32(hand.model))
    assert [event.clipped is None for event in hand.events(trace.Arrived)] == [False, True]


def test_a_larger_update_is_refused_if_the_profile_says_so() -> None:
    strategy = Scripted()
    hand = started(strategy, UpdateBound(clip=5.0, on_clip="refuse"))
    hand.update("a", 3.0, -4.1)
    hand.update("b", 3.0, -4.0)
    assert [(event.device, event.reason) for event in hand.events(trace.Rejected)] == [
        ("a", "its norm exceeds aggregator.clip")
    ]
    assert strategy.events == ["start", "ready a", "update b"]
    assert hand.model == [3.0, -4.0]
    check_conservation(hand.engine)


def test_without_a_bound_any_finite_update_is_applied() -> None:
    hand = started(Scripted(), UpdateBound())
    hand.update("a", 1e17, 0.0)
    assert hand.model == [np.float32(1e17), 0.0]
    assert hand.events(trace.Arrived)[0].clipped is None


@pytest.mark.parametrize(
    "strategy",
    [FedAsync(), FedBuff(k=1), AUDG(interval=1.0), PSURDG(interval=1.0)],
    ids=lambda each: type(each).__name__,
)
def test_no_strategy_moves_the_model_further_than_the_bound(strategy: Strategy) -> None:
    """Whether it mixes models, adds deltas or uses old ones again."""
    hand = started(strategy, UpdateBound(clip=1.0))
    hand.update("a", 1e17, 1e17)
    if hand.engine.wake_at is not None:
        hand.now = hand.engine.wake_at
        hand.engine.wake(hand.now)
    assert hand.engine.version == 1
    assert 0 < float(np.linalg.norm(hand.model)) <= 1.001


# ---- the range of the model


def test_updates_to_a_model_that_is_out_of_range_are_rejected_with_that_reason() -> None:
    hand = started(Scripted(), UpdateBound())
    hand.update("a", 1e17, 0.0)
    hand.update("a", float("nan"), 0.0)
    hand.update("b", float("nan"), 0.0)  # its model is the first one
    assert [(event.device, event.reason) for event in hand.events(trace.Rejected)] == [
        ("a", "its delta is not finite: the model that it was trained on is out of range"),
        ("b", "its delta is not finite"),
    ]
