"""FedAvg, x ← Σ (n_i/Σn) x_i, recomputed by hand."""

from __future__ import annotations

import pytest

from aggregator.strategies.per_round.fedavg import FedAvg
from testbed.history import trace
from tests.aggregator.strategies.by_hand import ByHand


def test_two_rounds_average_the_local_models_by_samples() -> None:
    hand = ByHand(FedAvg(), (1.0, 2.0))
    hand.start(a=10, b=30)

    # n = 10, 30 → weights 0.25, 0.75. x_a = (1, 2) + (1, 0) = (2, 2), x_b = (1, 2) + (−1, 4) = (0, 6)
    hand.update("a", 1.0, 0.0)
    assert hand.model == [1.0, 2.0]  # a round waits for all
    hand.update("b", -1.0, 4.0)
    # (0.25·2 + 0.75·0, 0.25·2 + 0.75·6) = (0.5, 5). With the misprinted 1/m it would be (0.25, 2.5)
    assert hand.model == [0.5, 5.0]

    # x_a = (0.5, 5) + (4, −4) = (4.5, 1), x_b = (0.5, 5) + (0, 2) = (0.5, 7); the order does not matter
    hand.update("b", 0.0, 2.0)
    hand.update("a", 4.0, -4.0)
    # (0.25·4.5 + 0.75·0.5, 0.25·1 + 0.75·7) = (1.5, 5.5)
    assert hand.model == [1.5, 5.5]
    rounds = hand.events(trace.Aggregated)
    assert [made.weights for made in rounds] == [[0.25, 0.75], [0.75, 0.25]]
    assert [made.staleness for made in rounds] == [[0, 0], [0, 0]]


@pytest.mark.parametrize(("fraction", "size"), [(1.0, 4), (0.75, 3), (0.5, 2), (0.3, 1), (0.01, 1)])
def test_a_round_takes_a_fraction_of_the_devices_and_at_least_one(fraction: float, size: int) -> None:
    hand = ByHand(FedAvg(fraction=fraction))
    hand.start(a=1, b=1, c=1, d=1)
    for _ in range(5):
        chosen = hand.dispatched()
        assert len(chosen) == len(set(chosen)) == size  # without replacement
        for device in chosen:
            hand.update(device, 1.0)


def test_the_weights_of_a_fraction_add_up_to_one_over_the_chosen_devices() -> None:
    samples = {"a": 10, "b": 20, "c": 30, "d": 40}
    hand = ByHand(FedAvg(fraction=0.5))
    hand.start(**samples)
    first, second = hand.dispatched()
    hand.update(first, 6.0)
    hand.update(second, 12.0)
    # for c and a: (30·6 + 10·12) / 40 = 7.5, not / 100
    expected = (samples[first] * 6 + samples[second] * 12) / (samples[first] + samples[second])
    assert hand.model == [pytest.approx(expected)]


def test_every_device_is_chosen_at_some_time_and_the_seed_decides_when() -> None:
    def chosen(seed: int) -> list[list[str]]:
        hand = ByHand(FedAvg(fraction=0.5), seed=seed)
        hand.start(a=1, b=1, c=1, d=1)
        rounds = []
        for _ in range(20):
            rounds.append(hand.dispatched())
            for device in rounds[-1]:
                hand.update(device, 1.0)
        return rounds

    assert {device for names in chosen(0) for device in names} == {"a", "b", "c", "d"}
    assert chosen(0) == chosen(0) != chosen(1)


def test_a_round_ends_at_its_deadline_with_the_updates_that_have_arrived() -> None:
    hand = ByHand(FedAvg(deadline=5.0))
    hand.start(a=10, b=20, c=10)
    late = hand.train("c")
    hand.now = 1.0
    hand.update("a", 4.0)
    hand.update("b", 1.0)
    assert (hand.model, hand.engine.wake_at) == ([0.0], 5.0)
    hand.wake()
    # (10·4 + 20·1) / (10 + 20) = 2: the samples of c do not count
    assert hand.model == [2.0]
    assert hand.engine.wake_at == 10.0

    # c is chosen again: its old job is superseded, and its answer has an old ticket
    assert [event.device for event in hand.events(trace.Superseded)] == ["c"]
    assert hand.train("c").version == 1
    hand.update("c", 100.0, train=late)
    assert [event.ticket for event in hand.events(trace.Ignored)] == [late.ticket]
    for device in ("a", "b", "c"):
        hand.update(device, 1.0)
    assert hand.model == [3.0]


def test_an_update_that_arrives_after_its_round_is_rejected() -> None:
    hand = ByHand(FedAvg(fraction=0.67, deadline=5.0))
    hand.start(a=1, b=1, c=1)
    prompt, straggler = hand.dispatched()
    for _ in range(20):
        hand.update(prompt, 3.0)
        hand.wake()
        prompt, other = chosen = hand.dispatched()
        if straggler not in chosen:
            break
        straggler = other
    model = hand.model
    hand.update(straggler, 100.0)
    assert hand.model == model
    assert [(event.device, event.reason) for event in hand.events(trace.Rejected)] == [
        (straggler, "its round had closed")
    ]
    assert hand.dispatched() == []  # it waits for a round that chooses it
    hand.update(prompt, 2.0)
    hand.update(other, 4.0)
    assert hand.model == [pytest.approx(model[0] + 3.0)]


def test_a_round_without_updates_at_its_deadline_ends_with_the_first_update() -> None:
    # to start the round over would restart all devices forever if none is as fast as the deadline
    hand = ByHand(FedAvg(deadline=5.0))
    hand.start(a=1, b=1)
    hand.wake()
    assert (hand.engine.version, hand.engine.tally.superseded, hand.engine.wake_at) == (0, 0, None)
    hand.update("a", 1.0)
    assert (hand.engine.version, hand.model) == (1, [1.0])
    assert hand.engine.tally.superseded == 1
