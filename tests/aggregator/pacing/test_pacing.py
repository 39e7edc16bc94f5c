"""The paces: when a version is made, and which devices are started then."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from aggregator.pacing import EveryRound, EveryUpdate, KMixed
from aggregator.strategies.per_k.safl_weighted import SAFLWeighted
from aggregator.strategies.per_k.twafl import TWAFL
from aggregator.strategy import Reject, Server
from testbed.history import trace
from testbed.wire.messages import Update
from tests.aggregator.strategies.by_hand import ByHand
from tests.aggregator.strategies.test_contract import MeanOfK, MeanOfRound, MeanOfTick


def tickets(hand: ByHand) -> list[int]:
    """Number of updates in each version."""
    return [len(made.tickets) for made in hand.events(trace.Aggregated)]


# ---- EveryUpdate


@dataclass(kw_only=True)
class HalfOfPositive(EveryUpdate):
    def weight(self, update: Update, server: Server) -> float:
        if update.delta[0] < 0:
            raise Reject("it is negative")
        return 0.5


def test_every_update_makes_a_version_for_its_device_alone() -> None:
    hand = ByHand(HalfOfPositive())
    hand.start(a=1, b=1)
    assert hand.dispatched() == ["a", "b"]
    hand.update("b", 4.0)
    assert (hand.model, hand.engine.version, hand.dispatched()) == ([2.0], 1, ["b"])


def test_a_rejected_update_makes_no_version_and_its_device_continues() -> None:
    hand = ByHand(HalfOfPositive())
    hand.start(a=1)
    hand.update("a", -4.0)
    assert (hand.engine.version, hand.engine.tally.rejected, hand.engine.tally.dispatched) == (0, 1, 2)
    assert [event.reason for event in hand.events(trace.Rejected)] == ["it is negative"]


# ---- EveryK


def of_k(k: int, *names: str) -> ByHand:
    hand = ByHand(MeanOfK(k=k))
    hand.start(**dict.fromkeys(names, 1))
    hand.dispatched()
    return hand


def test_k_updates_make_a_version_for_their_devices() -> None:
    hand = of_k(2, "a", "b", "c")
    hand.update("c", 2.0)
    assert (hand.engine.version, hand.dispatched()) == (0, [])
    hand.update("a", 4.0)
    assert (hand.model, hand.dispatched()) == ([3.0], ["c", "a"])
    hand.update("b", 0.0)
    hand.update("c", 2.0)
    assert (hand.model, hand.dispatched()) == ([4.0], ["b", "c"])
    assert [made.staleness for made in hand.events(trace.Aggregated)] == [[0, 0], [1, 0]]


def test_k_is_limited_by_the_number_of_devices() -> None:
    hand = of_k(5, "a", "b")
    hand.update("a", 2.0)
    assert hand.engine.version == 0
    hand.update("b", 4.0)
    assert (hand.model, hand.dispatched()) == ([3.0], ["a", "b"])


def test_a_leave_closes_a_version_that_waited_for_it() -> None:
    hand = of_k(3, "a", "b", "c")
    hand.update("a", 2.0)
    hand.update("b", 4.0)
    hand.leave("c")
    assert (hand.model, hand.dispatched()) == ([3.0], ["a", "b"])


def test_a_joining_device_can_deliver_the_missing_update() -> None:
    hand = of_k(3, "a", "b")
    hand.update("a", 2.0)
    hand.join("c")
    hand.update("b", 4.0)
    assert (hand.engine.version, hand.dispatched()) == (0, ["c"])
    hand.update("c", 6.0)
    assert hand.model == [4.0]


@pytest.mark.parametrize("happens", [lambda hand: hand.give_up("b"), lambda hand: hand.update("b", float("nan"))])
def test_a_device_without_an_update_is_started_again_and_awaited(happens: object) -> None:
    hand = of_k(2, "a", "b")
    hand.update("a", 2.0)
    happens(hand)  # type: ignore[operator]
    assert (hand.engine.version, hand.dispatched()) == (0, ["b"])
    hand.update("b", 4.0)
    assert hand.model == [3.0]


def test_the_update_of_a_device_that_left_counts_and_the_device_is_not_started() -> None:
    hand = of_k(2, "a", "b")
    hand.update("a", 2.0)
    hand.leave("a")
    hand.update("b", 4.0)
    assert (hand.model, hand.dispatched()) == ([3.0], ["b"])


def test_a_device_that_returned_and_is_busy_is_not_restarted_for_its_earlier_update() -> None:
    hand = of_k(2, "a", "b")
    hand.update("a", 2.0)
    hand.leave("a")
    hand.join("a")
    assert hand.dispatched() == ["a"]
    hand.update("b", 4.0)
    assert (hand.model, hand.dispatched()) == ([3.0], ["b"])
    assert hand.engine.tally.superseded == 0


def test_the_last_device_that_leaves_closes_the_version() -> None:
    hand = of_k(2, "a", "b")
    hand.update("a", 2.0)
    hand.leave("a")
    hand.leave("b")
    assert (hand.model, hand.engine.in_flight) == ([2.0], 0)
    hand.join("c")
    assert hand.dispatched() == ["c"]


# ---- KMixed


@pytest.mark.parametrize("strategy", [SAFLWeighted, TWAFL])
@pytest.mark.parametrize("alpha", [1.0, 0.6, 0.1])
def test_deltas_of_zero_on_the_current_model_leave_it_unchanged(strategy: type[KMixed], alpha: float) -> None:
    hand = ByHand(strategy(k=3, alpha=alpha), (3.0, -5.0))
    hand.start(a=1, b=20, c=7)
    for _ in range(5):
        for device in ("a", "b", "c"):
            hand.update(device, 0.0, 0.0)
    assert hand.engine.version == 5
    assert hand.model == [pytest.approx(3.0), pytest.approx(-5.0)]


# ---- EveryRound


def of_rounds(*names: str, deadline: float | None = None, keeps_base: bool = False) -> ByHand:
    hand = ByHand(MeanOfRound(deadline=deadline), keeps_base=keeps_base)
    hand.start(**dict.fromkeys(names, 1))
    hand.dispatched()
    return hand


def test_an_update_on_an_old_base_counts_in_the_round_that_waits_for_it() -> None:
    hand = of_rounds("a", "b", keeps_base=True)
    hand.update("a", 2.0)
    hand.update("b", 4.0)
    assert (hand.model, hand.dispatched()) == ([3.0], ["a", "b"])
    hand.update("a", 2.0, version=0)  # the download of version 1 was lost, and it has trained the model that it had
    hand.update("b", 4.0)
    assert (hand.model, hand.dispatched()) == ([6.0], ["a", "b"])
    assert [made.staleness for made in hand.events(trace.Aggregated)] == [[0, 0], [1, 0]]
    assert hand.engine.tally.rejected == 0


def test_a_round_of_one_device_on_an_old_base_does_not_stall() -> None:
    hand = of_rounds("a", keeps_base=True)
    hand.update("a", 1.0)
    for _ in range(3):
        hand.update("a", 1.0, version=0)
    assert (hand.model, hand.engine.version) == ([4.0], 4)


def test_an_update_on_an_old_base_is_too_late_for_a_round_that_has_closed() -> None:
    hand = of_rounds("a", "b", deadline=1.0, keeps_base=True)
    hand.update("a", 2.0)
    hand.update("b", 4.0)
    first = hand.train("b")
    hand.update("a", 2.0)
    hand.wake()  # the round of version 1 closes without b, which is restarted on version 2
    hand.update("b", 4.0, train=first, version=0)
    assert (hand.engine.version, hand.engine.tally.superseded) == (2, 1)
    hand.update("b", 4.0, version=0)  # now it is the round of version 2 that waits for it
    hand.update("a", 0.0)
    assert (hand.engine.version, hand.model) == (3, [7.0])  # 3, + 2, + (4 + 0)/2


@dataclass(kw_only=True)
class ByFirstNumber(EveryRound):
    """The share of an update is the first number of its Δ, or 0."""

    def share(self, update: Update, server: Server) -> float:
        return max(0.0, float(update.delta[0]))


def test_a_round_whose_shares_add_up_to_zero_makes_a_version_that_changes_nothing() -> None:
    hand = ByHand(ByFirstNumber(), (5.0,))
    hand.start(a=1, b=1)
    hand.update("a", -1.0)
    hand.update("b", -2.0)
    assert (hand.model, hand.engine.version) == ([5.0], 1)
    assert hand.events(trace.Aggregated)[-1].weights == [0.0, 0.0]
    assert hand.engine.tally.applied == 2
    hand.update("a", -1.0)
    hand.update("b", 2.0)  # the next round is as any other: 5 + (0·(−1) + 2·2)/2
    assert (hand.model, hand.events(trace.Aggregated)[-1].weights) == ([7.0], [0.0, 1.0])


def test_a_round_that_all_devices_leave_closes_with_the_updates_so_far() -> None:
    hand = of_rounds("a", "b")
    hand.update("a", 2.0)
    hand.leave("a")
    hand.leave("b")
    assert (hand.model, hand.engine.in_flight) == ([2.0], 0)


def test_rounds_continue_with_the_first_device_that_joins_an_empty_fleet() -> None:
    hand = of_rounds()
    hand.join("a")
    hand.join("b")  # joins during a round and waits for the next one
    assert hand.dispatched() == ["a"]
    hand.update("a", 2.0)
    assert (hand.model, hand.dispatched()) == ([2.0], ["a", "b"])
    hand.leave("a")
    hand.leave("b")
    hand.join("c")
    assert (hand.dispatched(), hand.train("c").version) == (["c"], 1)


def test_a_round_whose_uploads_were_all_given_up_starts_again_without_a_version() -> None:
    hand = of_rounds("a", "b")
    hand.give_up("a")
    assert hand.dispatched() == []
    hand.give_up("b")
    assert (hand.engine.version, hand.dispatched()) == (0, ["a", "b"])
    assert hand.engine.tally.lost == 2


def test_a_round_does_not_wait_for_an_upload_that_was_given_up() -> None:
    hand = of_rounds("a", "b")
    hand.update("a", 2.0)
    hand.give_up("b")
    assert (hand.model, hand.dispatched()) == ([2.0], ["a", "b"])


def test_a_device_that_was_restarted_in_a_round_waits_for_the_next() -> None:
    hand = of_rounds("a", "b")
    hand.join("a")
    assert hand.dispatched() == []
    hand.update("b", 2.0)
    assert (hand.model, hand.dispatched()) == ([2.0], ["a", "b"])


def test_the_deadline_counts_from_the_beginning_of_each_round() -> None:
    hand = of_rounds("a", "b", deadline=4.0)
    hand.now = 1.0
    hand.update("a", 1.0)
    hand.update("b", 1.0)
    assert hand.engine.wake_at == 5.0
    hand.update("a", 1.0)
    hand.wake(late=0.5)
    assert (hand.engine.version, hand.engine.wake_at) == (2, 9.5)


def test_the_deadline_of_an_earlier_round_has_no_effect() -> None:
    hand = of_rounds("a", deadline=4.0)
    hand.leave("a")
    hand.now = 3.0
    hand.join("b")
    hand.join("c")
    assert hand.engine.wake_at == 7.0
    hand.now = 4.0
    hand.engine.wake(4.0)
    assert (hand.engine.tally.superseded, hand.engine.wake_at) == (0, 7.0)


def test_any_event_after_the_deadline_closes_the_round() -> None:
    hand = of_rounds("a", "b", "c", deadline=4.0)
    hand.update("a", 2.0)
    hand.now = 4.0
    hand.update("b", 4.0)  # before the wake: it is in time
    assert (hand.model, tickets(hand)) == ([3.0], [2])


# ---- EveryTick


def of_ticks(*names: str) -> ByHand:
    hand = ByHand(MeanOfTick(interval=2.0))
    hand.start(**dict.fromkeys(names, 1))
    hand.dispatched()
    return hand


def test_a_tick_makes_a_version_for_the_devices_whose_update_arrived() -> None:
    hand = of_ticks("a", "b", "c")
    hand.now = 0.5
    hand.update("a", 2.0)
    hand.now = 1.9
    hand.update("c", 4.0)
    assert (hand.engine.version, hand.dispatched(), hand.engine.wake_at) == (0, [], 2.0)
    hand.wake()
    assert (hand.model, hand.dispatched(), hand.engine.wake_at) == ([3.0], ["a", "c"], 4.0)


def test_a_tick_without_updates_is_an_iteration_too() -> None:
    hand = of_ticks("a")
    hand.wake()
    hand.wake()
    assert (hand.engine.version, hand.model, hand.dispatched(), tickets(hand)) == (2, [0.0], [], [0, 0])
    hand.update("a", 1.0)
    hand.wake()
    assert [event.staleness for event in hand.events(trace.Aggregated)] == [[], [], [2]]


def test_ticks_continue_without_devices() -> None:
    hand = of_ticks("a")
    hand.leave("a")
    hand.wake()
    assert (hand.engine.version, hand.engine.wake_at) == (1, 4.0)
    hand.join("a")
    assert (hand.dispatched(), hand.train("a").version) == (["a"], 1)


def test_a_late_wake_does_not_move_the_schedule() -> None:
    hand = of_ticks("a")
    hand.wake(late=1.5)
    assert (hand.engine.now, hand.engine.wake_at) == (3.5, 4.0)
    hand.wake()
    assert (hand.engine.now, hand.engine.wake_at) == (4.0, 6.0)


def test_missed_ticks_are_made_up_one_wake_each() -> None:
    hand = of_ticks("a")
    hand.update("a", 1.0)
    hand.wake(late=5.0)  # at 7: the ticks of 2, 4 and 6 are due
    moments = [(hand.engine.version, hand.engine.wake_at)]
    while hand.engine.wake_at is not None and hand.engine.wake_at <= hand.now:
        hand.wake()
        moments.append((hand.engine.version, hand.engine.wake_at))
    assert moments == [(1, 4.0), (2, 6.0), (3, 8.0)]
    assert (hand.now, tickets(hand)) == (7.0, [1, 0, 0])


def test_a_device_that_joins_or_gave_up_is_started_at_once_and_not_at_the_tick() -> None:
    hand = of_ticks("a", "b")
    hand.now = 1.0
    hand.join("c")
    hand.give_up("a")
    assert (hand.engine.version, hand.dispatched()) == (0, ["c", "a"])


def test_a_tick_does_not_restart_a_device_that_returned_and_is_busy() -> None:
    hand = of_ticks("a", "b")
    hand.update("a", 2.0)
    hand.update("b", 4.0)
    hand.leave("a")
    hand.leave("b")
    hand.join("b")
    hand.dispatched()
    hand.wake()
    assert (hand.model, hand.dispatched(), hand.engine.tally.superseded) == ([3.0], [], 0)
