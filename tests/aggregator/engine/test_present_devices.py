"""What strategies see of the present devices: live, read-only, in the order in which the devices joined."""

from __future__ import annotations

import pytest

from aggregator.strategies.per_k.safl import SAFL
from aggregator.strategies.per_update.fedasync import FedAsync
from aggregator.strategy import DeviceInfo
from tests.aggregator.strategies.by_hand import ByHand


def scene() -> ByHand:
    hand = ByHand(FedAsync())
    hand.start(c=1, a=2, b=3)
    return hand


def test_devices_are_in_the_order_in_which_they_joined() -> None:
    hand = scene()
    assert list(hand.engine.devices) == ["c", "a", "b"]
    hand.leave("c")
    hand.join("c", 5)
    assert list(hand.engine.devices.items())[-1] == ("c", DeviceInfo(name="c", samples=5))


def test_busy_devices_are_in_the_order_in_which_they_joined_and_not_in_that_of_their_tickets() -> None:
    hand = scene()
    hand.update("c", 1.0)
    hand.update("a", 1.0)  # the tickets are now in the order b, c, a
    assert list(hand.engine.busy.items()) == [("c", 1), ("a", 2), ("b", 0)]


def test_a_few_busy_devices_are_in_the_order_in_which_they_joined() -> None:
    hand = ByHand(FedAsync(in_flight=3, sampling="round-robin"))
    hand.start(**{f"n{number:02}": 1 for number in reversed(range(40))})
    hand.update("n00", 1.0)  # which joined last, and n03 is started
    assert list(hand.engine.busy) == ["n03", "n02", "n01"]


def test_a_view_that_is_kept_shows_later_changes() -> None:
    hand = ByHand(SAFL(k=2))
    hand.start(a=1, b=1)
    devices, busy = hand.engine.devices, hand.engine.busy
    hand.update("a", 1.0)
    assert (list(devices), dict(busy), len(busy), "a" in busy) == (["a", "b"], {"b": 0}, 1, False)
    hand.leave("b")
    assert (list(devices), dict(busy)) == (["a"], {"a": 1})


def test_a_strategy_cannot_change_what_it_sees() -> None:
    engine = scene().engine
    for view in (engine.devices, engine.busy):
        with pytest.raises(TypeError):
            view["x"] = 1  # type: ignore[index]
        with pytest.raises(TypeError):
            del view["a"]  # type: ignore[attr-defined]
        assert not hasattr(view, "pop")


def test_a_busy_view_is_equal_to_a_dictionary_and_shows_itself_as_one() -> None:
    engine = scene().engine
    assert engine.busy == {"a": 0, "b": 0, "c": 0}
    assert repr(engine.busy) == "{'c': 0, 'a': 0, 'b': 0}"
    with pytest.raises(KeyError):
        engine.busy["x"]


def test_a_restored_engine_has_the_same_views() -> None:
    first, second = scene(), ByHand(FedAsync())
    first.update("c", 1.0)
    first.leave("b")
    second.engine.restore(first.engine.state())
    second.engine.validate()
    assert list(second.engine.devices.items()) == list(first.engine.devices.items())
    assert list(second.engine.busy.items()) == [("c", 1), ("a", 0)]
