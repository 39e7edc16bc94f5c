"""Sync-FL of Forootani and Iervolino 2025, section VI, recomputed by hand."""

from __future__ import annotations

from aggregator.strategies.per_round.syncfl import SyncFL
from testbed.history import trace
from testbed.wire.training_job import Job
from tests.aggregator.strategies.by_hand import ByHand


def test_two_rounds_are_the_plain_mean_of_the_local_models() -> None:
    hand = ByHand(SyncFL(), (1.0, 2.0))
    hand.start(a=10, b=30)

    hand.update("a", 2.0, 0.0)
    assert hand.model == [1.0, 2.0]  # a round waits for all
    hand.update("b", 0.0, 4.0)
    # x_a = (3, 2), x_b = (1, 6):  ((3 + 1)/2, (2 + 6)/2) = (2, 4). By samples it would be (1.5, 5)
    assert hand.model == [2.0, 4.0]

    hand.update("b", -6.0, 2.0)
    hand.update("a", 0.0, 0.0)
    # x_b = (−4, 6), x_a = (2, 4):  (−1, 5)
    assert hand.model == [-1.0, 5.0]
    assert [made.weights for made in hand.events(trace.Aggregated)] == [[0.5, 0.5], [0.5, 0.5]]


def test_the_mean_is_over_the_devices_chosen_for_the_round() -> None:
    hand = ByHand(SyncFL(fraction=0.5))
    hand.start(a=1, b=1, c=1, d=1)
    first, second = hand.dispatched()
    hand.update(first, 6.0)
    hand.update(second, 12.0)
    assert hand.model == [9.0]  # (6 + 12)/2, not /4


def test_the_local_learning_rate_is_that_of_the_profile_and_does_not_depend_on_delays() -> None:
    job = Job(lr=0.8, epochs=3)
    hand = ByHand(SyncFL(), job=job)
    hand.start(a=1, b=1)
    assert hand.train("a").job == job
    hand.update("a", 0.0, seconds=1.0)
    hand.update("b", 0.0, seconds=9.0)
    assert (hand.train("a").job, hand.train("b").job) == (job, job)


def test_a_round_records_its_devices_and_how_long_each_computed() -> None:
    hand = ByHand(SyncFL())
    hand.start(a=1, b=1, c=1)
    hand.now = 10.0  # the moments of arrival do not affect the computing times
    for device, seconds in (("a", 1.0), ("b", 3.0), ("c", 2.0)):
        hand.update(device, 0.0, seconds=seconds)
    hand.now = 20.0
    for device, seconds in (("c", 7.0), ("a", 1.0), ("b", 4.0)):
        hand.update(device, 0.0, seconds=seconds)
    assert [(event.number, event.t, event.devices, event.seconds) for event in hand.events(trace.Round)] == [
        (1, 10.0, ["a", "b", "c"], [1.0, 3.0, 2.0]),
        (2, 20.0, ["c", "a", "b"], [7.0, 1.0, 4.0]),
    ]


def test_a_device_that_missed_the_deadline_is_in_no_round() -> None:
    hand = ByHand(SyncFL(deadline=5.0))
    hand.start(a=1, b=1, c=1)
    late = hand.train("c")
    hand.update("a", 2.0, seconds=1.0)
    hand.update("b", 4.0, seconds=2.0)
    hand.wake()
    assert hand.model == [3.0]  # (2 + 4)/2
    hand.update("c", 100.0, train=late, seconds=100.0)
    for device in ("a", "b", "c"):
        hand.update(device, 0.0, seconds=3.0)
    assert [event.seconds for event in hand.events(trace.Round)] == [[1.0, 2.0], [3.0, 3.0, 3.0]]


def test_a_round_without_updates_is_not_recorded() -> None:
    hand = ByHand(SyncFL())
    hand.start(a=1, b=1)
    hand.update("a", 0.0, seconds=1.0)
    hand.update("b", 0.0, seconds=2.0)
    hand.give_up("a")
    hand.give_up("b")
    assert len(hand.events(trace.Round)) == 1
