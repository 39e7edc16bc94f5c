"""Compressed updates in the engine: their bytes, what a Train says about them, and those that cannot be used."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from aggregator.process.checkpoint import MODULES
from aggregator.strategies.per_k.fedbuff import FedBuff
from aggregator.strategies.per_update.fedasync import FedAsync
from aggregator.strategy import Strategy
from testbed.common.files import statefile
from testbed.history import trace
from testbed.wire.codec import decode, encode
from testbed.wire.error_feedback import outgoing
from testbed.wire.messages import Train, Update
from tests.aggregator.strategies.by_hand import ByHand


def started(strategy: Strategy) -> ByHand:
    hand = ByHand(strategy, (0.0, 0.0, 0.0, 0.0))
    hand.start(a=1)
    return hand


def received(train: Train, *numbers: float, method: str = "topk:0.25") -> Update:
    """An update as the aggregator has it after decoding."""
    sent = outgoing(method, np.array(numbers, np.float32), None)
    update = Update(
        device="a",
        ticket=train.ticket,
        version=train.version,
        delta=sent.delta,
        payload=sent.payload,
        samples=1,
        steps=1,
        started=0.0,
        finished=1.0,
        due=1.0,
        loss=None,
    )
    message = decode(encode(update), len(numbers))
    assert isinstance(message, Update)
    return message


def test_the_strategy_gets_what_was_sent_and_the_trace_has_its_bytes() -> None:
    hand = started(FedAsync(alpha=1.0))
    hand.engine.update(received(hand.train("a"), 1.0, 4.0, -2.0, 0.0), 1.0)
    assert hand.model == [0.0, 4.0, 0.0, 0.0]
    assert [event.bytes for event in hand.events(trace.Arrived)] == [8]


def test_a_train_names_the_last_update_of_its_device_that_arrived() -> None:
    hand = started(FedAsync())
    first = hand.train("a")
    hand.engine.update(received(first, 1.0, 2.0, 3.0, 4.0), 1.0)
    assert (first.arrived, hand.train("a").arrived) == (0, first.ticket)


@pytest.mark.parametrize("method", ["int8", "float16", "topk:0.25"])
def test_an_update_that_is_not_finite_ends_its_ticket_and_has_not_arrived(method: str) -> None:
    hand = started(FedAsync())
    first = hand.train("a")
    hand.engine.update(received(first, math.nan, 1.0, 2.0, 3.0, method=method), 1.0)
    assert [event.reason for event in hand.events(trace.Rejected)] == ["its delta is not finite"]
    assert hand.train("a").ticket > first.ticket
    assert hand.train("a").arrived == 0


def test_an_upload_that_was_given_up_has_not_arrived() -> None:
    hand = started(FedAsync())
    first = hand.train("a")
    hand.engine.update(received(first, 1.0, 2.0, 3.0, 4.0), 1.0)
    second = hand.train("a")
    hand.give_up("a")
    assert hand.train("a").ticket > second.ticket
    assert hand.train("a").arrived == first.ticket


def test_a_device_that_was_only_silent_learns_what_arrived_before() -> None:
    hand = started(FedBuff(k=2))
    first = hand.train("a")
    hand.engine.update(received(first, 1.0, 2.0, 3.0, 4.0), 1.0)
    hand.leave("a")
    hand.join("a", trains=2)
    assert hand.train("a").arrived == first.ticket


def test_a_checkpoint_has_a_compressed_update_and_what_has_arrived(tmp_path: Path) -> None:
    hand = started(FedBuff(k=2))
    first = hand.train("a")
    hand.engine.update(received(first, 1.0, 2.0, 3.0, 4.0), 1.0)
    statefile.draft(hand.engine.state(), MODULES).write(tmp_path / "state", {})
    state = statefile.read(tmp_path / "state", MODULES)
    assert state["register"]["arrived"] == {"a": first.ticket}
    [update] = state["strategy"]["_collected"]
    assert update.nbytes == 8
    assert update.delta.tolist() == [0.0, 0.0, 0.0, 4.0]
