"""FedProx: FedAvg with μ, eq. (39) of Wang et al. 2022, in each job, recomputed by hand."""

from __future__ import annotations

import pytest

from aggregator.strategies.per_round.fedavg import FedAvg
from aggregator.strategies.per_round.fedprox import FedProx
from aggregator.strategy import Strategy
from testbed.history import trace
from testbed.wire.training_job import Job
from tests.aggregator.strategies.by_hand import ByHand


def test_two_rounds_average_the_local_models_by_samples() -> None:
    hand = ByHand(FedProx(mu=0.5), (1.0, 2.0))
    hand.start(a=10, b=30)

    hand.update("b", -1.0, 4.0)
    hand.update("a", 3.0, 0.0)
    # n = 10, 30 → weights 0.25, 0.75. x_a = (4, 2), x_b = (0, 6)
    # (0.25·4 + 0.75·0, 0.25·2 + 0.75·6) = (1, 5): the server does not use μ, it is in the local models already
    assert hand.model == [1.0, 5.0]

    hand.update("a", 0.0, -4.0)
    hand.update("b", 4.0, 0.0)
    # x_a = (1, 1), x_b = (5, 5):  (0.25·1 + 0.75·5, 0.25·1 + 0.75·5) = (4, 4)
    assert hand.model == [4.0, 4.0]
    assert [made.weights for made in hand.events(trace.Aggregated)] == [[0.75, 0.25], [0.25, 0.75]]


def test_every_job_has_mu_and_everything_else_from_the_profile() -> None:
    hand = ByHand(FedProx(mu=0.3), job=Job(steps=7, batch=4, lr=0.2, momentum=0.5))
    hand.start(a=1, b=3)
    for _ in range(3):
        for device in ("a", "b"):
            assert hand.train(device).job == Job(steps=7, batch=4, lr=0.2, momentum=0.5, proximal=0.3)
        for device in ("a", "b"):
            hand.update(device, 1.0)


@pytest.mark.parametrize("mu", [0.0, 0.3])
def test_the_mu_of_the_strategy_replaces_that_of_the_profile(mu: float) -> None:
    hand = ByHand(FedProx(mu=mu), job=Job(proximal=0.9))
    hand.start(a=1)
    assert hand.train("a").job == Job(proximal=mu)


def test_a_device_that_joins_later_gets_mu_too() -> None:
    hand = ByHand(FedProx(mu=0.3))
    hand.start(a=1)
    hand.join("b")
    hand.update("a", 1.0)
    assert (hand.dispatched(), hand.train("b").job) == (["a", "a", "b"], Job(proximal=0.3))


def test_it_chooses_and_averages_as_fedavg_does() -> None:
    def run(strategy: Strategy) -> tuple[list[list[str]], list[float]]:
        hand = ByHand(strategy, (1.0,), seed=3)
        hand.start(a=1, b=2, c=3, d=4)
        rounds = []
        for number in range(6):
            rounds.append(hand.dispatched())
            for device in rounds[-1]:
                hand.update(device, number - 2.0 * ord(device))
        return rounds, hand.model

    assert run(FedProx(mu=0.3, fraction=0.5)) == run(FedAvg(fraction=0.5))


def test_a_round_ends_at_its_deadline_with_the_updates_that_have_arrived() -> None:
    hand = ByHand(FedProx(mu=0.3, deadline=5.0))
    hand.start(a=10, b=20, c=10)
    hand.update("a", 4.0)
    hand.update("b", 1.0)
    hand.wake()
    # (10·4 + 20·1) / (10 + 20) = 2
    assert hand.model == [2.0]
    assert hand.train("c").job == Job(proximal=0.3)
