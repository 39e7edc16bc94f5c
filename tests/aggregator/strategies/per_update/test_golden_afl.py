"""AFL, Algorithm 1 and section VI of Forootani and Iervolino 2025, recomputed by hand."""

from __future__ import annotations

import math

import pytest

from aggregator.strategies.per_update.afl import AFL
from testbed.history import trace
from testbed.wire.training_job import Job
from tests.aggregator.strategies.by_hand import ByHand


def answer(hand: ByHand, number: int, delta: float = 0.0, seconds: float = 0.0) -> str:
    """Send the update for message ``number`` of all that were sent. Return its device."""
    device, train = hand.sent[number]
    hand.update(device, delta, train=train, seconds=seconds)
    return device


def test_four_steps_are_the_mean_of_the_latest_models() -> None:
    hand = ByHand(AFL(fraction=1.0), (1.0, 2.0))
    hand.start(a=10, b=30, c=20)

    hand.update("a", 2.0, 0.0)
    # x_a = (1, 2) + (2, 0) = (3, 2), m = 1: neither the initial model nor a device without an update is in the mean
    assert hand.model == [3.0, 2.0]

    hand.update("b", 0.0, 4.0)
    # x_b = (1, 2) + (0, 4) = (1, 6), from version 0; m = 2:  ((3 + 1)/2, (2 + 6)/2) = (2, 4)
    assert hand.model == [2.0, 4.0]

    hand.update("a", -2.0, 2.0)
    # x_a = (3, 2) + (−2, 2) = (1, 4), from version 1, instead of (3, 2); m is still 2
    # ((1 + 1)/2, (4 + 6)/2) = (1, 5). As a third member it would give (5/3, 4)
    assert hand.model == [1.0, 5.0]

    hand.update("c", 3.0, 3.0)
    # x_c = (1, 2) + (3, 3) = (4, 5), from version 0; m = 3:  ((1 + 1 + 4)/3, (4 + 6 + 5)/3) = (2, 5)
    assert hand.model == [pytest.approx(2.0), pytest.approx(5.0)]
    made = hand.events(trace.Aggregated)
    assert [event.weights for event in made] == [[1.0], [0.5], [0.5], [pytest.approx(1 / 3)]]
    assert [event.staleness for event in made] == [[0], [1], [1], [3]]


def test_the_last_model_of_a_device_that_has_left_still_counts() -> None:
    hand = ByHand(AFL(fraction=1.0))
    hand.start(a=1, b=1)
    hand.update("a", 2.0)
    hand.leave("a")
    hand.update("b", 6.0)  # (2 + 6)/2
    assert hand.model == [4.0]
    hand.join("a")
    hand.update("a", 4.0)  # x_a = 4 + 4 = 8 instead of 2: (8 + 6)/2
    assert hand.model == [7.0]


def test_the_bound_rejects_a_staler_update_and_its_device_continues() -> None:
    hand = ByHand(AFL(fraction=1.0, tau_max=2))
    hand.start(fast=1, at=1, above=1)
    hand.update("fast", 1.0)
    hand.update("fast", 1.0)  # x_fast = 1, then 2
    hand.update("at", 4.0)
    # version 0 arrives at 2: τ = 2 = τ_max.  (2 + 4)/2 = 3
    assert hand.model == [3.0]

    hand.dispatched()
    hand.update("above", 100.0)
    # version 0 arrives at 3: τ = τ_max + 1
    assert (hand.model, hand.engine.version, hand.engine.tally.rejected) == ([3.0], 3, 1)
    assert [(event.device, event.reason) for event in hand.events(trace.Rejected)] == [
        ("above", "its staleness is above 2")
    ]
    assert (hand.dispatched(), hand.train("above").version) == (["above"], 3)

    hand.update("above", 3.0)
    # its first update that counts: x = 3 + 3 = 6, m = 3:  (2 + 4 + 6)/3 = 4
    assert hand.model == [4.0]


def test_a_rejected_update_frees_its_place_and_counts_as_an_arrival_of_its_round() -> None:
    hand = ByHand(AFL(fraction=0.5, tau_max=0))
    hand.start(a=1, b=1, c=1, d=1)
    names = [answer(hand, 0, seconds=1.0), answer(hand, 1, seconds=4.0)]  # τ = 0, then 1
    assert (hand.engine.tally.rejected, len(hand.engine.busy), len(hand.sent)) == (1, 2, 4)
    assert [(event.devices, event.seconds) for event in hand.events(trace.Round)] == [(names, [1.0, 4.0])]


@pytest.mark.parametrize(
    ("fraction", "devices", "size"),
    [(1.0, 4, 4), (0.75, 4, 3), (0.5, 5, 2), (0.5, 4, 2), (0.3, 4, 1), (0.01, 4, 1), (0.29, 100, 29)],
)
def test_a_fraction_is_in_flight_and_every_device_takes_part(fraction: float, devices: int, size: int) -> None:
    def run(seed: int) -> list[str]:
        hand = ByHand(AFL(fraction=fraction), seed=seed)
        hand.start(**{f"d{number}": 1 for number in range(devices)})
        for number in range(10 * devices):
            assert len(hand.engine.busy) == size
            answer(hand, number)
        assert hand.engine.tally.superseded == 0  # drawn from the devices that are not in flight
        return hand.dispatched()

    assert len(set(run(0))) == devices
    assert run(0) == run(0)
    assert (run(0) == run(1)) == (size == devices)


def test_another_device_is_drawn_for_one_that_leaves() -> None:
    hand = ByHand(AFL(fraction=0.5))
    hand.start(a=1, b=1, c=1, d=1, e=1)
    gone = hand.dispatched()[0]
    hand.leave(gone)  # of the 4 that are left, 2 are in flight
    assert (len(hand.dispatched()), len(hand.engine.busy)) == (1, 2)


def test_the_local_learning_rate_follows_the_spread_of_the_last_complete_round() -> None:
    hand = ByHand(AFL(fraction=0.5, alpha=0.5), job=Job(lr=0.8, epochs=3))
    hand.start(a=1, b=1, c=1, d=1)
    in_flight = 2
    names = []
    for moment, seconds in enumerate([5.0, 1.0, 100.0, 98.0, 3.0, 3.0]):
        hand.now = 1000.0 * (moment + 1)
        names.append(answer(hand, moment, seconds=seconds))
    # a round is C·N = 2 arrivals. τ_t = 0, then 5 − 1 = 4, then 100 − 98 = 2, then 0
    # 0.8/1,  0.8/(1 + 0.5·4) = 0.8/3,  0.8/(1 + 0.5·2) = 0.4,  0.8/1; a job in mid-round has the previous one
    after = [0.8, 0.8 / 3, 0.8 / 3, 0.4, 0.4, 0.8]
    sent = [train.job for _, train in hand.sent]
    assert sent[:in_flight] == [Job(lr=0.8, epochs=3, lr_schedule="inverse-sqrt")] * in_flight
    assert [job.lr for job in sent[in_flight:]] == pytest.approx(after)
    assert {(job.epochs, job.lr_schedule) for job in sent} == {(3, "inverse-sqrt")}

    assert [(event.number, event.t, event.devices, event.seconds) for event in hand.events(trace.Round)] == [
        (1, 2000.0, names[0:2], [5.0, 1.0]),
        (2, 4000.0, names[2:4], [100.0, 98.0]),
        (3, 6000.0, names[4:6], [3.0, 3.0]),
    ]


def test_a_fast_device_may_take_part_in_a_round_twice() -> None:
    hand = ByHand(AFL(fraction=1.0, alpha=1.0), job=Job(lr=0.5))
    hand.start(a=1, b=1)
    hand.update("a", 0.0, seconds=1.0)
    hand.update("a", 0.0, seconds=2.0)
    assert [(event.devices, event.seconds) for event in hand.events(trace.Round)] == [(["a", "a"], [1.0, 2.0])]
    assert hand.train("a").job.lr == 0.25  # 0.5/(1 + (2 − 1))


def test_the_learning_rate_of_a_local_epoch_is_divided_by_the_root_of_its_number() -> None:
    job = Job(lr=0.9, batch=4, lr_schedule="inverse-sqrt")
    # 10 samples in batches of 4 are 3 steps an epoch: e = 0 0 0, 1 1 1, 2 2 2, 3 3 3
    expected = [0.9] * 3 + [0.9 / math.sqrt(2)] * 3 + [0.9 / math.sqrt(3)] * 3 + [0.45] * 3
    assert [job.lr_at(step, 10) for step in range(12)] == pytest.approx(expected)
    # 8 samples: 2 steps an epoch; 3 samples: a batch is all of them
    assert [job.lr_at(step, 8) for step in (0, 1, 2, 5, 6)] == pytest.approx(
        [0.9, 0.9, 0.9 / math.sqrt(2), 0.9 / math.sqrt(3), 0.45]
    )
    assert [job.lr_at(step, 3) for step in (0, 3, 8)] == pytest.approx([0.9, 0.45, 0.3])
    assert {Job(lr=0.9, batch=4).lr_at(step, 10) for step in range(12)} == {0.9}
