"""The synchronous degree: by hand, against a search through all degrees, and by properties."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.strategies.asafl.bandwidth import Allocation, Upload, equal, optimal
from aggregator.strategies.asafl.synchrony import (
    WEIGHTS,
    Budget,
    Candidate,
    Candidates,
    Control,
    Fixed,
    Greedy,
    LinearDegree,
    Lyapunov,
    Myopic,
    RoundProgress,
)

MBIT = 1e6


def device(name: str, *, after: float = 0.0, staleness: int = 0, mbit: float = 1.0) -> Candidate:
    """At 1 MHz and an SNR of 1, one Mbit takes one second."""
    return Candidate(device=name, upload=Upload(bits=mbit * MBIT, snr=1.0, remaining=after), staleness=staleness)


FOUR = [device("d", after=9.0), device("b", after=1.0, staleness=2), device("a"), device("c", after=3.0, staleness=1)]

CANDIDATES = st.lists(
    st.builds(
        device, st.uuids().map(str), after=st.floats(0, 10), staleness=st.integers(0, 30), mbit=st.floats(0.1, 5)
    ),
    min_size=1,
    max_size=8,
)
BUDGETS = st.builds(Budget, rounds=st.integers(1, 200), seconds=st.floats(1, 1000))
PROGRESS = st.builds(RoundProgress, round=st.integers(0, 250), spent=st.floats(0, 2000), queue=st.floats(0, 100))


# ---- options


def test_devices_take_part_in_the_order_in_which_they_finish_computing() -> None:
    options = Candidates(FOUR, MBIT)
    assert [options.at(degree).devices for degree in (1, 2, 4)] == [("a",), ("a", "b"), ("a", "b", "c", "d")]
    assert len(options) == 4


def test_the_stalest_of_the_ready_devices_comes_first() -> None:
    options = Candidates([device("a"), device("b", staleness=3), device("c", staleness=1)], MBIT)
    assert options.at(3).devices == ("b", "c", "a")


def test_an_option_relieves_the_staleness_of_its_devices() -> None:
    options = Candidates(FOUR, MBIT)
    # (τ + 1)²: a 1, b 9, c 4, d 1
    assert [options.at(degree).relieved for degree in (1, 2, 3, 4)] == [1, 10, 14, 15]


def test_the_shares_are_in_the_order_of_the_devices() -> None:
    option = Candidates([device("late", after=1.5), device("early")], MBIT).at(2)
    assert option.devices == ("early", "late")
    assert option.allocation.shares == pytest.approx((1 / 3, 2 / 3))  # see test_bandwidth
    assert Candidates([device("late", after=1.5), device("early")], MBIT, equal).at(2).allocation.seconds == 3.5


def test_a_degree_is_at_least_one_and_at_most_the_number_of_devices() -> None:
    options = Candidates(FOUR, MBIT)
    assert options.at(0) == options.at(-3) == options.at(1)
    assert options.at(99) == options.at(4)
    with pytest.raises(ValueError, match="without devices"):
        Candidates([], MBIT)


# ---- time


def test_the_queue_grows_with_long_rounds_and_never_falls_below_zero() -> None:
    budget = Budget(rounds=10, seconds=20.0)  # 2 s a round
    progress, seen = RoundProgress(), []
    for seconds in (5.0, 1.0, 0.5, 0.5, 3.0):
        progress = progress.after(seconds, budget)
        seen.append(progress.queue)
    assert seen == [3.0, 2.0, 0.5, 0.0, 1.0]  # (14)
    assert (progress.round, progress.spent) == (5, 10.0)


@pytest.mark.parametrize(
    ("name", "first", "middle", "last"),
    [
        ("harmonic", 1 / 4, 1 / 2, 1.0),  # 1/(4 − t) at t = 0, 2, 3
        ("slow", 0.95**3, 0.95, 1.0),
        ("steep", 0.7**3, 0.7, 1.0),
        ("linear", 0.0, 0.5, 0.75),
    ],
)
def test_the_weights_of_four_rounds_by_hand(name: str, first: float, middle: float, last: float) -> None:
    assert [WEIGHTS[name](t, 4) for t in (0, 2, 3)] == pytest.approx([first, middle, last])


@pytest.mark.parametrize("name", WEIGHTS)
def test_later_rounds_weigh_more(name: str) -> None:
    weights = [WEIGHTS[name](t, 50) for t in range(50)]
    assert weights == sorted(weights)
    assert len(set(weights)) == 50


# ---- Algorithm 3


def test_the_first_round_waits_for_all_because_the_queue_is_empty() -> None:
    control = Lyapunov(budget=Budget(rounds=10, seconds=1.0))
    assert len(control.choose(Candidates(FOUR, MBIT), RoundProgress()).devices) == 4


def test_without_weight_and_without_queue_one_device_is_enough() -> None:
    control = Lyapunov(budget=Budget(rounds=10, seconds=1.0), weighting="linear")  # λ_0 = 0
    assert len(control.choose(Candidates(FOUR, MBIT), RoundProgress()).devices) == 1


def test_two_rounds_by_hand() -> None:
    """T* of a; of a and b: 1/T + 1/(T − 1.5) = 1; of all with c, which is ready after 3 s and sends almost nothing."""
    three = [device("a"), device("b", after=1.5, staleness=1), device("c", after=3.0, mbit=1e-9)]
    options = Candidates(three, MBIT)
    assert [options.at(k).allocation.seconds for k in (1, 2, 3)] == pytest.approx([1.0, 3.0, 3.0], abs=1e-3)
    control = Lyapunov(budget=Budget(rounds=2, seconds=4.0), mu=4.0)
    # t = 0, λ = ½: −2·(1, 5, 6) + 5·(1, 3, 3) = (3, 5, 3 + a little more than 0): K = 1
    assert control.choose(options, RoundProgress(queue=5.0)).devices == ("a",)
    # t = 1, λ = 1: −4·(1, 5, 6) + 5·(1, 3, 3) = (1, −5, −9): K = 3
    assert control.choose(options, RoundProgress(round=1, queue=5.0)).devices == ("a", "b", "c")
    # t = 1, q = 9: −4·(1, 5, 6) + 9·(1, 3, 3) = (5, 7, 3 + a little)
    assert control.choose(options, RoundProgress(round=1, queue=9.0)).devices == ("a", "b", "c")
    # t = 1, q = 12: (8, 16, 12)
    assert control.choose(options, RoundProgress(round=1, queue=12.0)).devices == ("a",)


@given(
    CANDIDATES, BUDGETS, PROGRESS, st.floats(0.01, 1000), st.sampled_from([*WEIGHTS]), st.sampled_from([optimal, equal])
)
def test_no_other_degree_has_less_drift_plus_penalty(
    candidates: list[Candidate], budget: Budget, progress: RoundProgress, mu: float, name: str, allocate: object
) -> None:
    options = Candidates(candidates, MBIT, allocate)  # type: ignore[arg-type]
    t = min(progress.round, budget.rounds - 1)
    weight = {
        "harmonic": 1 / (budget.rounds - t),
        "slow": 0.95 ** (budget.rounds - t - 1),
        "steep": 0.7 ** (budget.rounds - t - 1),
        "linear": t / budget.rounds,
    }[name]

    def score(first: list[Candidate]) -> float:
        seconds = allocate([each.upload for each in first], MBIT).seconds  # type: ignore[operator]
        return -mu * weight * sum((each.staleness + 1) ** 2 for each in first) + progress.queue * seconds

    ordered = sorted(candidates, key=lambda each: (each.upload.remaining, -each.staleness))
    scores = [score(ordered[:k]) for k in range(1, len(ordered) + 1)]
    chosen = Lyapunov(budget=budget, mu=mu, weighting=name).choose(options, progress)
    assert scores[len(chosen.devices) - 1] == min(scores)
    assert len(chosen.devices) == 1 + scores.index(min(scores))
    assert chosen.devices == tuple(each.device for each in ordered[: len(chosen.devices)])


@given(CANDIDATES, BUDGETS, PROGRESS, st.floats(1.01, 100))
def test_a_longer_queue_never_waits_for_more_and_a_larger_mu_never_for_fewer(
    candidates: list[Candidate], budget: Budget, progress: RoundProgress, factor: float
) -> None:
    options = Candidates(candidates, MBIT)

    def degree(mu: float, queue: float) -> int:
        there = RoundProgress(round=progress.round, spent=progress.spent, queue=queue)
        return len(Lyapunov(budget=budget, mu=mu).choose(options, there).devices)

    now = degree(10.0, progress.queue)
    assert degree(10.0, progress.queue * factor) <= now <= degree(10.0 * factor, progress.queue)


# ---- other controls


def test_a_fixed_degree_is_fixed() -> None:
    options = Candidates(FOUR, MBIT)
    assert {len(Fixed(degree=3).choose(options, RoundProgress(round=t)).devices) for t in range(5)} == {3}


def crowd(size: int) -> Candidates:
    return Candidates([device(f"d{i}") for i in range(size)], MBIT, lambda *_: Allocation(shares=(), seconds=0.0))


def degrees(control: Control, rounds: int, size: int = 50) -> list[int]:
    options = crowd(size)
    return [len(control.choose(options, RoundProgress(round=t)).devices) for t in range(rounds)]


def test_ascending_goes_from_1_to_20_and_is_10_on_average() -> None:
    found = degrees(LinearDegree(rounds=1901), 1901)
    assert found == sorted(found)
    assert (found[0], found[99], found[100], found[-2], found[-1]) == (1, 1, 2, 19, 20)
    assert sum(found) / len(found) == pytest.approx(10.0, abs=0.01)


def test_descending_is_ascending_backwards() -> None:
    for rounds in (1, 2, 7, 20, 100, 333):
        up, down = LinearDegree(rounds=rounds), LinearDegree(rounds=rounds, first=20, last=1)
        if rounds > 1:
            assert degrees(down, rounds) == degrees(up, rounds)[::-1]
        assert degrees(up, rounds)[0] == 1
        assert degrees(down, rounds)[0] == 20


def test_a_line_stays_at_its_last_degree_and_within_the_fleet() -> None:
    assert degrees(LinearDegree(rounds=10), 20)[9:] == [20] * 11
    assert max(degrees(LinearDegree(rounds=10), 10, size=6)) == 6


def test_greedy_uses_all_of_the_time_that_is_left_and_myopic_an_equal_part() -> None:
    budget, options = Budget(rounds=4, seconds=12.0), Candidates(FOUR, MBIT)
    seconds = [options.at(k).allocation.seconds for k in (1, 2, 3, 4)]
    assert seconds[:2] == pytest.approx([1.0, (3 + math.sqrt(5)) / 2])  # 1/T + 1/(T − 1) = 1
    assert 1 / seconds[2] + 1 / (seconds[2] - 1) + 1 / (seconds[2] - 3) == pytest.approx(1.0)
    assert 4.8 < seconds[2] < 5.0
    assert 10.0 < seconds[3] < 11.0
    greedy, myopic = Greedy(budget=budget), Myopic(budget=budget)

    def found(control: Control, t: int, spent: float) -> int:
        return len(control.choose(options, RoundProgress(round=t, spent=spent)).devices)

    assert [found(greedy, 0, 0.0), found(greedy, 1, 10.4), found(greedy, 2, 11.5)] == [4, 1, 1]
    assert [found(myopic, 0, 0.0), found(myopic, 1, 2.6), found(myopic, 3, 7.0)] == [2, 2, 3]  # 3, 3.13 and 5 s
    assert found(greedy, 3, 99.0) == found(myopic, 3, 99.0) == 1  # no time is left, but a round has at least one device
    assert found(myopic, 9, 1.0) == 4  # after the last round: all of the time that is left, 11 s


@given(CANDIDATES, BUDGETS, PROGRESS)
def test_greedy_and_myopic_choose_the_largest_degree_that_fits(
    candidates: list[Candidate], budget: Budget, progress: RoundProgress
) -> None:
    options = Candidates(candidates, MBIT)
    left = budget.seconds - progress.spent
    rounds_left = max(1, budget.rounds - progress.round)
    for control, seconds in (Greedy(budget=budget), left), (Myopic(budget=budget), left / rounds_left):
        fitting = [k for k in range(1, len(options) + 1) if options.at(k).allocation.seconds <= seconds]
        assert len(control.choose(options, progress).devices) == max(fitting, default=1)


@given(CANDIDATES, BUDGETS, PROGRESS)
def test_every_control_chooses_at_least_one_device_and_the_first_ones(
    candidates: list[Candidate], budget: Budget, progress: RoundProgress
) -> None:
    options = Candidates(candidates, MBIT)
    controls: list[Control] = [
        Lyapunov(budget=budget),
        Greedy(budget=budget),
        Myopic(budget=budget),
        Fixed(degree=10),
        LinearDegree(rounds=budget.rounds),
    ]
    for control in controls:
        chosen = control.choose(options, progress)
        assert 1 <= len(chosen.devices) <= len(candidates)
        assert chosen == options.at(len(chosen.devices))
        assert math.isfinite(chosen.allocation.seconds)
