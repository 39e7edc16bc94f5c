"""``in_flight`` and ``sampling``: how many devices each pace keeps in flight, and which it starts when a place is free.

Draws by hand: ``default_rng(0)`` yields place 4 of 5, then 2 of 4, then 2 of 4, then 1 of 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.pacing import EveryRound
from aggregator.pacing.participants import SAMPLINGS, Participants
from aggregator.process import checkpoint
from aggregator.strategies.per_k.fedbuff import FedBuff
from aggregator.strategies.per_k.safl import SAFL
from aggregator.strategies.per_k.safl_sc import SAFLSC
from aggregator.strategies.per_round.fedavg import FedAvg
from aggregator.strategies.per_tick.audg import AUDG
from aggregator.strategies.per_update.afl import AFL
from aggregator.strategies.per_update.fedasync import FedAsync
from aggregator.strategy import Strategy
from testbed.common.files import statefile
from testbed.common.parameters import ParameterError
from testbed.history import trace
from tests.aggregator.pacing.test_liveness import History, histories
from tests.aggregator.strategies.by_hand import ByHand
from tests.aggregator.strategies.test_contract import CONTRACT_ROWS
from tests.properties import examples

FIVE = {"a": 10, "b": 20, "c": 30, "d": 40, "e": 50}


def started(strategy: Strategy, **samples: int) -> ByHand:
    hand = ByHand(strategy)
    hand.start(**samples or FIVE)
    return hand


def test_the_generator_draws_the_places_that_the_tests_assume() -> None:
    random = np.random.default_rng(0)
    assert [int(random.integers(count)) for count in (5, 4, 4, 4)] == [4, 2, 2, 1]


# ---- a version per update


def test_a_place_is_given_to_a_device_drawn_from_the_idle_ones() -> None:
    hand = started(FedAsync(in_flight=2))
    assert hand.dispatched() == ["e", "c"]  # place 4 of a b c d e, 2 of a b c d
    hand.update("c", 1.0)
    assert hand.dispatched() == ["c"]  # place 2 of a b c d: the same device again
    hand.update("e", 1.0)
    assert hand.dispatched() == ["b"]  # place 1 of a b d e
    assert set(hand.engine.busy) == {"b", "c"}


def test_devices_by_samples_are_drawn_at_a_point_of_all_samples() -> None:
    hand = started(FedAsync(in_flight=1, sampling="by_samples"))
    # a has the points 0 to 9, b 10 to 29, c 30 to 59, d 60 to 99, e 100 to 149
    random = np.random.default_rng(0)
    assert [int(random.integers(150)) for _ in range(3)] == [127, 95, 76]
    assert hand.dispatched() == ["e"]
    hand.update("e", 1.0)
    assert hand.dispatched() == ["d"]
    hand.update("d", 1.0)
    assert hand.dispatched() == ["d"]


def test_devices_take_turns_also_if_one_leaves_and_returns() -> None:
    hand = started(FedAsync(in_flight=2, sampling="round-robin"))
    assert hand.dispatched() == ["a", "b"]
    hand.update("b", 1.0)
    assert hand.dispatched() == ["c"]
    hand.leave("d")
    hand.update("a", 1.0)
    assert hand.dispatched() == ["e"]
    hand.join("d")
    hand.update("c", 1.0)
    assert hand.dispatched() == ["d"]  # it had no turn yet
    hand.update("e", 1.0)
    hand.update("d", 1.0)
    assert hand.dispatched() == ["a", "b"]  # the turn of a was before that of b


@pytest.mark.parametrize("happens", [ByHand.give_up, ByHand.leave, lambda hand, name: hand.update(name, float("nan"))])
def test_a_place_is_free_when_its_device_leaves_or_brings_nothing(happens: Callable[[ByHand, str], None]) -> None:
    hand = started(FedAsync(in_flight=2, sampling="round-robin"))
    hand.dispatched()
    happens(hand, "a")
    assert (hand.dispatched(), set(hand.engine.busy)) == (["c"], {"b", "c"})


def test_a_device_that_cannot_be_reached_leaves_its_place_to_the_next() -> None:
    hand = started(FedAsync(in_flight=1, sampling="round-robin"))
    hand.unreachable = {"b", "c"}
    hand.update("a", 1.0)
    assert (list(hand.engine.busy), list(hand.engine.devices)) == (["d"], ["a", "d", "e"])


def test_a_device_that_joins_waits_until_it_is_drawn() -> None:
    hand = started(FedAsync(in_flight=1, sampling="round-robin"), a=1)
    hand.dispatched()
    hand.join("b")
    assert hand.dispatched() == []
    hand.update("a", 1.0)
    assert hand.dispatched() == ["b"]


def test_a_fraction_of_the_present_devices_is_in_flight() -> None:
    hand = started(FedAsync(in_flight=0.5, sampling="round-robin"), **FIVE, f=1)
    assert hand.dispatched() == ["a", "b", "c"]
    hand.leave("f")
    hand.update("a", 1.0)  # ⌊0.5·5⌋ = 2 places, which b and c have
    assert (hand.dispatched(), list(hand.engine.busy)) == ([], ["b", "c"])
    hand.join("f")
    assert hand.dispatched() == ["d"]


# ---- a version per K updates


def test_a_device_that_waits_for_its_version_keeps_its_place_and_is_not_drawn() -> None:
    hand = started(SAFL(k=2, in_flight=3, sampling="round-robin"))
    assert hand.dispatched() == ["a", "b", "c"]
    hand.update("a", 2.0)
    assert (hand.dispatched(), hand.engine.version) == ([], 0)
    hand.update("c", 4.0)
    assert (hand.dispatched(), hand.model) == (["d", "e"], [3.0])  # two places are free; d and e had no turn yet
    assert hand.train("d").version == 1


def test_no_more_updates_are_awaited_than_places_and_devices_allow() -> None:
    hand = started(SAFL(k=3, in_flight=3, sampling="round-robin"), a=1, b=1, c=1, d=1)
    hand.dispatched()
    hand.update("a", 2.0)
    hand.leave("b")  # its place goes to d, whose update can be the third
    assert (hand.dispatched(), hand.engine.version) == (["d"], 0)
    hand.update("c", 4.0)
    hand.leave("d")  # no device is left that could be started: two updates must do
    assert (hand.model, hand.dispatched()) == ([3.0], ["a", "c"])


def test_the_places_of_a_shrinking_fleet_may_be_fewer_than_k() -> None:
    hand = started(SAFL(k=2, in_flight=0.5, sampling="round-robin"), a=1, b=1, c=1, d=1)
    assert hand.dispatched() == ["a", "b"]
    hand.leave("d")
    hand.leave("c")  # ⌊0.5·2⌋ = 1 place
    hand.update("a", 2.0)
    hand.update("b", 4.0)
    assert (hand.model, hand.dispatched()) == ([3.0], ["a"])
    hand.update("a", 1.0)
    assert (hand.model, hand.dispatched()) == ([4.0], ["b"])


def test_fedbuff_draws_another_device_when_one_has_delivered() -> None:
    hand = started(FedBuff(k=3, in_flight=2))
    assert hand.dispatched() == ["e", "c"]
    hand.update("e", 3.0)
    assert (hand.dispatched(), hand.engine.version) == (["d"], 0)  # place 2 of a b d e; the buffer has one update
    hand.update("d", 3.0)
    assert (hand.dispatched(), hand.engine.version) == (["b"], 0)  # place 1 of a b d e
    hand.update("c", 3.0)
    assert (hand.model, hand.engine.version) == ([3.0], 1)  # 3·3/3
    [device] = hand.dispatched()
    assert hand.train(device).version == 1
    assert set(hand.engine.busy) == {"b", device}


def test_a_device_that_is_restarted_keeps_its_place() -> None:
    hand = started(SAFLSC(k=1, in_flight=2, tau_0=0, sampling="round-robin"))
    assert hand.dispatched() == ["a", "b"]
    hand.update("a", 1.0)
    assert hand.dispatched() == ["c", "b"]  # c for a; b is a version behind and starts over
    assert set(hand.engine.busy) == {"b", "c"}


# ---- a version per tick


def test_places_of_an_interval_are_free_at_its_tick() -> None:
    hand = started(AUDG(interval=1.0, in_flight=2, sampling="round-robin"))
    assert hand.dispatched() == ["a", "b"]
    hand.update("a", 15.0)
    assert hand.dispatched() == []
    hand.wake()
    assert hand.dispatched() == ["c"]
    assert hand.model == [1.0]  # λ_a = 10/150: the samples of all devices, in flight or not
    hand.give_up("c")
    assert hand.dispatched() == ["d"]


def test_a_device_that_joins_changes_the_weights_of_the_next_tick() -> None:
    hand = started(AUDG(interval=1.0), a=1, b=1)
    hand.update("a", 4.0)
    hand.wake()
    hand.join("c", 2)
    hand.update("b", 4.0)
    hand.wake()
    assert [event.weights for event in hand.events(trace.Aggregated)] == [[0.5], [0.25]]


# ---- rounds


def test_a_round_has_as_many_devices_as_are_in_flight() -> None:
    hand = started(FedAvg(in_flight=2))
    assert hand.dispatched() == ["c", "e"]  # place 4 of a b c d e, 2 of a b c d; models are sent in the order of names
    hand.update("c", 1.0)
    hand.update("e", 1.0)
    assert len(hand.dispatched()) == 2


def test_rounds_take_turns() -> None:
    hand = started(FedAvg(in_flight=2, sampling="round-robin"))
    rounds = []
    for _ in range(5):
        rounds.append(hand.dispatched())
        for device in rounds[-1]:
            hand.update(device, 1.0)
    assert rounds == [["a", "b"], ["c", "d"], ["a", "e"], ["b", "c"], ["d", "e"]]


def test_a_fraction_with_another_sampling_keeps_its_size() -> None:
    hand = started(FedAvg(fraction=0.4, sampling="round-robin"))
    assert hand.dispatched() == ["a", "b"]


def test_afl_ends_a_round_after_as_many_arrivals_as_are_in_flight() -> None:
    hand = started(AFL(in_flight=3, sampling="round-robin"))
    assert hand.dispatched() == ["a", "b", "c"]
    for device in ("a", "b", "c"):
        hand.update(device, 1.0)
    assert [event.devices for event in hand.events(trace.Round)] == [["a", "b", "c"]]


# ---- any history


def limited() -> Iterator[Participants]:
    for make in CONTRACT_ROWS.values():
        strategy = make()
        if isinstance(strategy, Participants) and strategy.in_flight is not None:
            yield strategy


def test_the_contract_has_each_sampling_on_each_pace() -> None:
    paces = {"EveryUpdate", "EveryK", "EveryTick", "EveryRound"}
    found = {
        (base.__name__, each.sampling)
        for each in limited()
        if isinstance(each, Participants)
        for base in type(each).__mro__
    }
    assert found >= {(pace, sampling) for pace in paces for sampling in SAMPLINGS}


ROWS = {name: make for name, make in CONTRACT_ROWS.items() if "in flight," in name}


@pytest.mark.parametrize("make", ROWS.values(), ids=ROWS.keys())
@examples(100)
@given(present=st.integers(0, 5), happenings=histories)
def test_every_place_is_taken_as_long_as_a_device_is_idle(
    make: Callable[[], Participants], present: int, happenings: list[tuple[Callable[[History, int], None], int]]
) -> None:
    strategy = make()
    history = History(strategy, present, old_base=False, on_drop="give_up")
    engine = history.hand.engine
    for happens, number in happenings:
        happens(history, number)
        idle, devices = len(strategy.pool), len(engine.devices)
        if isinstance(strategy, EveryRound):
            assert idle == devices  # a round is drawn from all devices
        else:
            assert devices - idle == min(strategy.places(devices), devices)
            assert len(engine.busy) <= strategy.places(devices)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_run_from_a_checkpoint_draws_the_same_devices(tmp_path: Path, sampling: str) -> None:
    first, second = (ByHand(FedAsync(in_flight=2, sampling=sampling)) for _ in range(2))
    first.start(**FIVE)
    for device in list(first.engine.busy):
        first.update(device, 1.0)
    first.leave(next(iter(first.engine.busy)))
    statefile.draft(first.engine.state(), checkpoint.MODULES).write(tmp_path / "state", {})
    second.engine.restore(statefile.read(tmp_path / "state", checkpoint.MODULES))
    second.sent = list(first.sent)
    for _ in range(20):
        device = next(iter(first.engine.busy))
        first.update(device, 1.0)
        second.update(device, 1.0)
    assert [name for name, _ in second.sent] == [name for name, _ in first.sent]
    assert second.engine.random.integers(1000) == first.engine.random.integers(1000)


# ---- values


@pytest.mark.parametrize(
    ("strategy", "key", "problem"),
    [
        (FedAsync(in_flight=11), "in_flight", "is 11; it must be at most 10, the devices of the fleet: lower it,"),
        (FedAsync(in_flight=2.5), "in_flight", "is 2.5; it must be a whole number, or a fraction below 1"),
        (FedAsync(sampling="uniform"), "sampling", "is uniform, but all devices are in flight: set in_flight"),
        (FedAvg(sampling="by_samples"), "sampling", "is by_samples, but all devices are in flight: set in_flight"),
        (FedAvg(in_flight=2, fraction=0.5), "fraction", "is 0.5, but in_flight is 2: leave one of them out"),
        (AFL(in_flight=2, fraction=0.2), "fraction", "is 0.2, but in_flight is 2: leave one of them out"),
        (
            SAFL(k=3, in_flight=2),
            "k",
            "is 3; it must be at most 2, the devices in flight: lower it, or raise in_flight",
        ),
        (SAFL(k=3, in_flight=0.25), "k", "is 3; it must be at most 2, the devices in flight"),
        (FedBuff(in_flight=12), "in_flight", "is 12; it must be at most 10, the devices of the fleet"),
    ],
)
def test_a_value_that_does_not_fit_ten_devices_is_refused(strategy: Strategy, key: str, problem: str) -> None:
    with pytest.raises(ParameterError) as refused:
        strategy.check(10)
    assert (refused.value.key, refused.value.problem[: len(problem)]) == (key, problem)


@pytest.mark.parametrize(
    "strategy",
    [
        FedAsync(in_flight=1),
        FedAsync(in_flight=10.0, sampling="round-robin"),
        FedAsync(in_flight=0.05),
        SAFL(k=2, in_flight=2),
        FedBuff(k=30, in_flight=2),
        FedAvg(fraction=0.5, sampling="uniform"),
        AFL(in_flight=10),
        AUDG(interval=1.0, in_flight=3),
    ],
)
def test_a_value_that_fits_ten_devices_is_allowed(strategy: Strategy) -> None:
    strategy.check(10)


# ---- fraction alone


def test_a_fraction_alone_draws_the_same_devices_as_in_earlier_versions() -> None:
    names = [f"n{number}" for number in range(10)]
    hand = started(AFL(fraction=0.3), **dict.fromkeys(names, 1))
    random, busy = np.random.default_rng(0), set[str]()
    for step in range(40):
        idle = sorted(set(names) - busy)
        expected = [idle[place] for place in random.permutation(len(idle))[: 3 - len(busy)]]
        assert hand.dispatched() == expected
        busy.update(expected)
        device = sorted(busy)[step % 3]
        busy.remove(device)
        hand.update(device, 1.0)
