"""FedAsync, eq. (40) and (41) of Wang et al. 2022, recomputed by hand."""

from __future__ import annotations

import pytest

from aggregator.strategies.per_update.fedasync import FedAsync
from testbed.history import trace
from testbed.wire.training_job import Job
from tests.aggregator.strategies.by_hand import ByHand


def weights(hand: ByHand) -> list[float]:
    return [made.weights[0] for made in hand.events(trace.Aggregated)]


def test_three_steps_mix_local_models_made_from_their_own_base() -> None:
    hand = ByHand(FedAsync(alpha=0.5, damping="constant"), (1.0, 2.0))
    hand.start(a=1, b=1)

    hand.update("a", 2.0, 0.0)
    # x_a = (1, 2) + (2, 0) = (3, 2);  0.5·(1, 2) + 0.5·(3, 2) = (2, 2)
    assert hand.model == [2.0, 2.0]

    hand.update("b", 0.0, 4.0)
    # x_b = (1, 2) + (0, 4) = (1, 6), from version 0;  0.5·(2, 2) + 0.5·(1, 6) = (1.5, 4)
    # adding Δ to the current model instead would give (2, 4)
    assert hand.model == [1.5, 4.0]

    hand.update("a", -4.0, 2.0)
    # x_a = (2, 2) + (−4, 2) = (−2, 4), from version 1;  0.5·(1.5, 4) + 0.5·(−2, 4) = (−0.25, 4)
    assert hand.model == [-0.25, 4.0]
    assert weights(hand) == [0.5, 0.5, 0.5]


def test_the_polynomial_damps_by_staleness_since_download_and_alpha_does_not_compound() -> None:
    hand = ByHand(FedAsync(alpha=0.5, damping="polynomial", a=1.0))
    hand.start(fast=1, slow=1)
    hand.update("fast", 4.0)  # τ = 0, x_i = 0 + 4 = 4:    0.5·0 + 0.5·4 = 2
    hand.update("fast", 2.0)  # τ = 0, x_i = 2 + 2 = 4:    0.5·2 + 0.5·4 = 3
    hand.update("fast", 1.0)  # τ = 0, x_i = 3 + 1 = 4:    0.5·3 + 0.5·4 = 3.5
    assert hand.model == [3.5]

    hand.update("slow", 8.0)
    # downloaded version 0, arrives at 3: τ = 3, α_t = 0.5·(3 + 1)^−1 = 0.125, x_i = 0 + 8
    # 0.875·3.5 + 0.125·8 = 3.0625 + 1 = 4.0625
    assert hand.model == [4.0625]

    hand.update("fast", 0.5)
    # downloaded version 3, arrives at 4: τ = 1, α_t = 0.5·2^−1 = 0.25, x_i = 3.5 + 0.5 = 4
    # 0.75·4.0625 + 0.25·4 = 3.046875 + 1 = 4.046875
    assert hand.model == [4.046875]

    hand.update("fast", 1.0)
    # τ = 0: α_t is 0.5 again; earlier damping has no effect. x_i = 4.046875 + 1
    # 0.5·4.046875 + 0.5·5.046875 = 4.546875
    assert hand.model == [4.546875]
    assert weights(hand) == [0.5, 0.5, 0.5, 0.125, 0.25, 0.5]
    assert [made.staleness for made in hand.events(trace.Aggregated)] == [[0], [0], [0], [3], [1], [0]]


def test_the_exponent_of_the_polynomial_is_minus_a() -> None:
    hand = ByHand(FedAsync(alpha=0.6, damping="polynomial", a=0.5))
    hand.start(fast=1, slow=1)
    for _ in range(3):
        hand.update("fast", 0.0)
    hand.update("slow", 1.0)
    # τ = 3: (3 + 1)^−0.5 = 1/2, α_t = 0.6/2 = 0.3, and 0 + 0.3·1 = 0.3
    assert hand.model == [pytest.approx(0.3)]


def test_the_hinge_damps_after_b_and_not_at_b() -> None:
    hand = ByHand(FedAsync(alpha=0.8, damping="hinge", a=2.0, b=2.0), (10.0,))
    hand.start(fast=1, at_b=1, after_b=1, later=1)
    hand.update("fast", 0.0)
    hand.update("fast", 0.0)  # two versions that change nothing

    hand.update("at_b", 5.0)
    # τ = 2 = b: s = 1, α_t = 0.8, x_i = 10 + 5.  0.2·10 + 0.8·15 = 14
    assert hand.model == [pytest.approx(14.0)]

    hand.update("after_b", -2.0)
    # τ = 3 = b + 1: s = 1/(2·(3 − 2) + 1) = 1/3, x_i = 10 − 2.  14 − 0.8/3·(14 − 8) = 14 − 1.6 = 12.4
    # without the + 1, s would be 1/2 and the model 14 − 0.4·6 = 11.6
    assert hand.model == [pytest.approx(12.4)]

    hand.update("later", 0.0)
    # τ = 4: s = 1/(2·2 + 1) = 0.2, α_t = 0.16, x_i = 10.  12.4 − 0.16·2.4 = 12.016
    assert hand.model == [pytest.approx(12.016)]
    assert weights(hand) == pytest.approx([0.8, 0.8, 0.8, 0.8 / 3, 0.16])


def test_a_hinge_at_a_fraction_is_measured_from_b_itself() -> None:
    hand = ByHand(FedAsync(alpha=0.5, damping="hinge", a=0.5, b=0.5))
    hand.start(fast=1, slow=1)
    hand.update("fast", 0.0)
    hand.update("slow", 1.0)
    # τ = 1: s = 1/(0.5·(1 − 0.5) + 1) = 1/1.25 = 0.8, and 0 + 0.5·0.8·1 = 0.4
    assert hand.model == [pytest.approx(0.4)]


def test_the_hinge_in_seconds_damps_by_the_time_since_the_download() -> None:
    hand = ByHand(FedAsync(alpha=0.8, damping="hinge", a=2.0, b=2.0, tau_unit="seconds"), (10.0,))
    hand.start(fast=1, slow=1)
    for _ in range(5):
        hand.update("fast", 0.0)
    hand.now = 9.0
    hand.update("slow", 5.0, seconds=2.0)
    # five versions behind, but downloaded 2 s = b ago: s = 1, x_i = 10 + 5.  0.2·10 + 0.8·15 = 14
    assert hand.model == [pytest.approx(14.0)]
    hand.update("fast", -2.0, seconds=3.5)
    # one version behind; 3.5 s: s = 1/(2·(3.5 − 2) + 1) = 1/4, α_t = 0.2, x_i = 10 − 2.  14 − 0.2·(14 − 8) = 12.8
    assert hand.model == [pytest.approx(12.8)]


def test_a_polynomial_in_seconds_is_damped_by_fractions_of_a_second() -> None:
    hand = ByHand(FedAsync(alpha=0.6, damping="polynomial", a=0.5, tau_unit="seconds"))
    hand.start(a=1)
    hand.now = 4.0
    hand.update("a", 1.0, seconds=1.25)
    # (1.25 + 1)^−0.5 = 2/3, α_t = 0.6·2/3 = 0.4
    assert hand.model == [pytest.approx(0.4)]


def test_option_two_sends_rho_with_every_job() -> None:
    hand = ByHand(FedAsync(rho=0.25), job=Job(proximal=0.5))
    hand.start(a=1)
    first = hand.train("a").job
    hand.update("a", 1.0)
    assert (first.proximal, hand.train("a").job.proximal) == (0.25, 0.25)
    option_one = ByHand(FedAsync(), job=Job(proximal=0.5))  # the profile's own
    option_one.start(a=1)
    assert option_one.train("a").job.proximal == 0.5


def test_a_resent_download_does_not_make_an_update_fresher() -> None:
    hand = ByHand(FedAsync(alpha=0.5, damping="polynomial", a=1.0))
    hand.start(fast=1, slow=1)
    hand.update("fast", 2.0)  # 0.5·2 = 1
    hand.heartbeat("slow", trains=1)  # its download was lost: version 0 is sent again
    hand.update("slow", 4.0)
    # τ = 1, α_t = 0.25, x_i = 0 + 4:  0.75·1 + 0.25·4 = 1.75
    assert hand.model == [1.75]
