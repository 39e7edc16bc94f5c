"""When a model is out of range, and what is reported."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aggregator.engine.model_range import ModelRange, in_words
from testbed.history import trace
from testbed.wire.messages import Update, Vector
from tests.aggregator.strategies.by_hand import vector


def update(device: str) -> Update:
    return Update(
        device=device,
        ticket=1,
        version=0,
        delta=vector(0.0),
        samples=1,
        steps=1,
        started=0.0,
        finished=0.0,
        due=0.0,
        loss=None,
    )


def checked(known: ModelRange, model: Vector, version: int, now: float) -> trace.OutOfRange | None:
    known.measure(model)
    return known.check(version, now)


def test_a_model_that_grows_by_three_orders_of_magnitude_is_reported_once() -> None:
    found = ModelRange(vector(3.0, 4.0))
    assert checked(found, vector(4999.0, 0.0), 1, 1.0) is None
    event = checked(found, vector(0.0, 6000.0), 2, 2.0)
    assert event is not None
    assert (event.t, event.version, event.norm, event.start) == (2.0, 2, 6000.0, 5.0)
    assert checked(found, vector(0.0, 5_000_000.0), 3, 3.0) is None
    assert checked(found, vector(0.0, 7_000_000.0), 4, 4.0) is not None


def test_a_zero_model_may_grow_to_a_thousand() -> None:
    found = ModelRange(vector(0.0, 0.0))
    assert checked(found, vector(999.0, 0.0), 1, 1.0) is None
    assert checked(found, vector(1001.0, 0.0), 2, 2.0) is not None


def test_the_device_with_the_largest_update_and_the_version_after_it_are_named() -> None:
    found = ModelRange(vector(0.0))
    found.note(update("a"), 4.0, 7)
    found.note(update("b"), 1e34, 8)
    found.note(update("c"), 9.0, 9)
    event = checked(found, vector(1e17), 12, 1.0)
    assert event is not None
    assert (event.device, event.version, event.largest) == ("b", 9, 1e17)
    text = in_words(event)
    assert "is 1e+17 at version 9" in text
    assert "from b, has 1e+17" in text
    assert "set aggregator.clip" in text
    assert "\n" not in text


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_model_that_is_not_finite_is_reported_once_and_has_no_norm(bad: float) -> None:
    found = ModelRange(vector(1.0))
    event = checked(found, vector(bad), 1, 1.0)
    assert event is not None
    assert event.norm is None
    assert "is not finite at version 1" in in_words(event)
    assert checked(found, vector(bad), 2, 2.0) is None


def test_a_norm_beyond_single_precision_is_finite() -> None:
    found = ModelRange(vector(1.0))
    event = checked(found, np.full(4, 1e30, np.float32), 1, 1.0)
    assert event is not None
    assert event.norm == pytest.approx(2e30)


def test_a_resumed_run_does_not_repeat_a_report() -> None:
    before, after = ModelRange(vector(1.0)), ModelRange(vector(1.0))
    assert checked(before, vector(2000.0), 7, 1.0) is not None
    after.restore(before.state())
    assert checked(after, vector(2000.0), 8, 2.0) is None
    assert checked(after, vector(3e6), 9, 3.0) is not None


def test_the_same_version_is_checked_once() -> None:
    found = ModelRange(vector(1.0))
    checked(found, vector(1.0), 3, 1.0)
    assert checked(found, vector(1e9), 3, 2.0) is None
