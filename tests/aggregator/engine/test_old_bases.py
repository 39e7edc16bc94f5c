"""Devices that keep their base: if a download is lost, they train on the model that they have."""

from __future__ import annotations

import numpy as np
import pytest

from aggregator.strategies.per_update.fedasync import FedAsync
from aggregator.strategy import Decision, DeviceInfo, Server
from testbed.history import trace
from tests.aggregator.engine.test_engine import Scripted
from tests.aggregator.strategies.by_hand import ByHand, check_conservation, vector


def join(hand: ByHand, device: str) -> None:
    hand.engine.join(DeviceInfo(name=device, samples=1, keeps_base=True), hand.now)


@pytest.fixture
def strategy() -> Scripted:
    return Scripted()


@pytest.fixture
def hand(strategy: Scripted) -> ByHand:
    """Device a keeps its base, b does not; both have delivered once, on version 0. Now a was sent 1, and b 2."""
    hand = ByHand(strategy)
    join(hand, "a")
    hand.start(b=1)
    hand.update("a", 1.0)
    hand.update("b", 1.0)
    return hand


def rejections(hand: ByHand) -> list[tuple[str, str]]:
    return [(event.device, event.reason) for event in hand.events(trace.Rejected)]


# ---- which version is accepted


def test_an_update_on_the_version_that_the_device_had_before_is_accepted(hand: ByHand) -> None:
    assert hand.train("a").version == 1
    hand.update("a", 1.0, version=0)
    assert (rejections(hand), hand.model, hand.engine.version) == ([], [3.0], 3)
    check_conservation(hand.engine)


def test_its_staleness_counts_from_that_older_version(hand: ByHand) -> None:
    hand.update("a", 1.0, version=0)
    arrived, aggregated = hand.events(trace.Arrived)[-1], hand.events(trace.Aggregated)[-1]
    assert (arrived.device, arrived.version, arrived.staleness) == ("a", 0, 2)
    assert (aggregated.version, aggregated.tickets, aggregated.staleness) == (3, [arrived.ticket], [2])
    hand.update("a", 1.0)  # this time the download arrived
    assert (hand.events(trace.Arrived)[-1].version, hand.events(trace.Aggregated)[-1].staleness) == (3, [0])


def test_the_strategy_can_read_the_model_that_an_update_is_based_on() -> None:
    hand = ByHand(FedAsync(alpha=0.5, damping="constant"), (8.0,))
    join(hand, "a")
    hand.start(b=1)
    hand.update("a", 2.0)  # ½·8 + ½·(8 + 2) = 9
    hand.update("b", -4.0)  # ½·9 + ½·(8 − 4) = 6.5
    hand.update("a", 2.0, version=0)
    # ½·6.5 + ½·(8 + 2) = 8.25; on the version that was sent, it would be ½·6.5 + ½·(9 + 2) = 8.75
    assert hand.model == [8.25]


def test_the_model_is_kept_while_the_update_awaits_a_decision(strategy: Scripted, hand: ByHand) -> None:
    ticket = hand.train("a").ticket
    strategy.answer = lambda server: Decision(train={"a": server.job})
    hand.update("a", 1.0, version=0)

    def use_it(server: Server) -> Decision:
        assert server.model_at(0).tolist() == [0.0]
        return Decision(model=vector(9.0), applied={ticket: 1.0}, train={"b": server.job}, rejected={4: "-"})

    strategy.answer = use_it
    hand.update("b", 1.0)
    assert hand.events(trace.Aggregated)[-1].staleness == [2]
    check_conservation(hand.engine)


def test_a_device_may_stay_on_an_old_version_for_many_jobs(hand: ByHand) -> None:
    for _ in range(4):
        hand.update("a", 1.0, version=0)
    assert rejections(hand) == []
    assert [event.staleness for event in hand.events(trace.Aggregated)[-4:]] == [[2], [3], [4], [5]]
    check_conservation(hand.engine)


def test_an_old_version_is_dropped_with_the_first_update_on_a_newer_one(hand: ByHand) -> None:
    hand.update("a", 1.0)  # on 1
    hand.update("a", 1.0, version=0)
    assert rejections(hand) == [("a", "it claims version 0, but its ticket is for 3")]
    hand.update("a", 1.0, version=1)
    assert hand.events(trace.Aggregated)[-1].staleness == [2]
    check_conservation(hand.engine)


def test_a_device_that_does_not_keep_its_base_must_use_the_version_that_was_sent(hand: ByHand) -> None:
    hand.update("b", 1.0, version=0)
    assert rejections(hand) == [("b", "it claims version 0, but its ticket is for 2")]
    assert hand.engine.version == 2


@pytest.mark.parametrize("version", [2, 3, 99])
def test_a_claim_of_any_other_version_is_rejected(hand: ByHand, version: int) -> None:
    hand.update("a", 1.0, version=version)
    assert rejections(hand) == [("a", f"it claims version {version}, but its ticket is for 1")]
    assert hand.engine.version == 2
    check_conservation(hand.engine)


def test_before_its_first_update_a_device_has_no_older_version() -> None:
    hand = ByHand(Scripted())
    hand.start(b=1)
    hand.update("b", 1.0)
    join(hand, "a")
    hand.update("a", 1.0, version=0)
    assert rejections(hand) == [("a", "it claims version 0, but its ticket is for 1")]


def test_a_device_that_is_restarted_has_no_older_version(hand: ByHand) -> None:
    join(hand, "a")
    hand.update("a", 1.0, version=0)
    assert rejections(hand) == [("a", "it claims version 0, but its ticket is for 2")]


def test_an_unfit_update_on_an_old_version_is_rejected_with_its_own_reason(hand: ByHand) -> None:
    hand.update("a", float("nan"), version=0)
    assert rejections(hand) == [("a", "its delta is not finite")]
    hand.update("a", 1.0, version=0)  # the device still has it
    assert (len(rejections(hand)), hand.engine.version) == (1, 3)
    check_conservation(hand.engine)


# ---- memory


def test_the_version_that_a_device_had_is_kept_until_it_leaves(hand: ByHand) -> None:
    assert hand.engine.model_at(0).tolist() == [0.0]  # no device trains on it
    assert hand.engine.models_kept == 3  # 0 and 1 of a, and 2
    hand.leave("a")
    assert hand.engine.models_kept == 1
    with pytest.raises(KeyError):
        hand.engine.model_at(0)


def test_a_version_whose_download_was_lost_is_not_kept(hand: ByHand) -> None:
    hand.update("a", 1.0, version=0)
    assert (hand.engine.version, hand.engine.models_kept) == (3, 3)  # 0 of a, 2 of b, and 3
    with pytest.raises(KeyError):
        hand.engine.model_at(1)


def test_no_more_than_two_models_are_kept_for_a_device_whatever_it_loses() -> None:
    chance = np.random.default_rng(4)
    hand, names, most = ByHand(Scripted()), ["a", "b", "c"], 0
    bases: dict[str, int] = {}
    for name in names:
        join(hand, name)
    hand.start()
    for _ in range(2000):
        name, what = str(chance.choice(names)), chance.random()
        if not hand.engine.is_present(name):
            join(hand, name)
        elif what < 0.05:
            hand.leave(name)
            bases.pop(name, None)
        elif what < 0.1:
            hand.update(name, float("nan"))
        elif what < 0.5 and name in bases:
            hand.update(name, 1.0, version=bases[name])
        else:
            bases[name] = hand.train(name).version
            hand.update(name, 1.0)
        most = max(most, hand.engine.models_kept)
        assert hand.engine.models_kept <= 2 * len(hand.engine.devices) + 1
        check_conservation(hand.engine)
    assert all(reason.startswith("its delta is not finite") for _, reason in rejections(hand))
    assert most == 2 * len(names)  # the device that was served last has the current version
    for name in list(hand.engine.devices):
        hand.leave(name)
    assert hand.engine.models_kept == 1
