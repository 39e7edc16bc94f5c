"""Gradient calibration, Algorithms 1 and 4 of Chen et al. 2024: by hand, and their equality (Theorem 2)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.strategies.asafl.gradient_memory import Differences, Mismatch
from aggregator.strategy.latest_updates import LatestUpdates
from devices.baseline import Baseline
from testbed.wire.messages import Vector
from tests.aggregator.strategies.by_hand import vector

DEVICES = 4
SIZE = 3


# ---- by hand


def test_three_rounds_of_algorithm_1_by_hand() -> None:
    server = LatestUpdates(vector(0, 0))
    server.replace("a", vector(4, 0))
    # three of four have sent nothing, their gradient is 0:  ¼·(4, 0)
    assert (server.total / 4).tolist() == [1.0, 0.0]
    server.replace("b", vector(0, 8))
    server.replace("c", vector(4, 4))
    # ¼·((4, 0) + (0, 8) + (4, 4)): a sent nothing in this round, and still counts
    assert (server.total / 4).tolist() == [2.0, 3.0]
    server.replace("a", vector(-8, 0))
    # the new one of a replaces its old one:  ¼·((−8, 0) + (0, 8) + (4, 4))
    assert (server.total / 4).tolist() == [-1.0, 3.0]
    assert (server.total / 2).tolist() == [-2.0, 6.0]  # N is the number of devices by now


def test_three_rounds_of_algorithm_4_by_hand() -> None:
    server, a, b = Differences(vector(0)), Baseline(1), Baseline(1)
    first, since = a.difference(1, vector(4))
    assert (first.tolist(), since) == ([4.0], 0)  # 4 − 0
    server.add("a", 1, first, since)
    assert (server.total / 2).tolist() == [2.0]
    a.confirm(server.last_applied("a"))

    lost, since = a.difference(3, vector(10))
    assert (lost.tolist(), since) == ([6.0], 1)  # 10 − 4, and it is lost
    other, since = b.difference(2, vector(-2))
    server.add("b", 2, other, since)
    assert (server.total / 2).tolist() == [1.0]  # ½·(4 − 2)

    a.confirm(server.last_applied("a"))  # 1, as before: the lost one does not count
    again, since = a.difference(4, vector(6))
    assert (again.tolist(), since) == ([2.0], 1)  # 6 − 4, and not 6 − 10
    server.add("a", 4, again, since)
    assert (server.total / 2).tolist() == [2.0]  # ½·(6 − 2)


def test_a_difference_with_another_baseline_is_refused() -> None:
    server, device = Differences(vector(0)), Baseline(1)
    server.add("a", 1, *device.difference(1, vector(4)))
    # the device got no confirmation: its baseline is still 0
    with pytest.raises(Mismatch, match="its baseline is ticket 0, but 1 was applied last"):
        server.add("a", 2, *device.difference(2, vector(5)))
    assert server.total.tolist() == [4.0]


def test_a_device_that_has_lost_its_baseline_is_refused() -> None:
    server = Differences(vector(0))
    device = Baseline(1)
    server.add("a", 1, *device.difference(1, vector(4)))
    restarted = Baseline(1)
    restarted.confirm(server.last_applied("a"))
    with pytest.raises(Mismatch):
        server.add("a", 2, *restarted.difference(2, vector(5)))


def test_a_repeated_confirmation_changes_nothing() -> None:
    server, device = Differences(vector(0)), Baseline(1)
    server.add("a", 1, *device.difference(1, vector(4)))
    for _ in range(3):
        device.confirm(server.last_applied("a"))
    assert device.difference(2, vector(5))[0].tolist() == [1.0]


def test_a_difference_does_not_change_after_it_was_sent() -> None:
    device = Baseline(1)
    sent, _ = device.difference(1, vector(4))
    device.confirm(1)
    assert sent.tolist() == [4.0]
    with pytest.raises(ValueError, match="read-only"):
        sent += 1


# ---- Theorem 2, for any schedule, with losses


class Both:
    """The same devices under both algorithms. A job ends in one of four ways: see FATES."""

    def __init__(self, size: int = SIZE) -> None:
        zero = np.zeros(size, np.float32)
        self.latest, self.differences = LatestUpdates(zero), Differences(zero)
        self.devices = [Baseline(size) for _ in range(DEVICES)]
        self.tickets = 0

    def job(self, number: int, delta: Vector, fate: str) -> None:
        self.tickets += 1
        name, device = f"device-{number}", self.devices[number]
        if fate == "restarted":  # before it has an update
            return
        # a Train starts a job and names the baseline; a lost one starts none
        device.confirm(self.differences.last_applied(name))
        sent, since = device.difference(self.tickets, delta)
        if fate == "applied":
            self.latest.replace(name, delta)
            self.differences.add(name, self.tickets, sent, since)
        elif fate == "repeated":  # the ticket of the second has ended: the engine ignores it
            self.job_repeated(name, delta, sent, since)

    def job_repeated(self, name: str, delta: Vector, sent: Vector, since: int) -> None:
        self.latest.replace(name, delta)
        self.differences.add(name, self.tickets, sent, since)
        with pytest.raises(Mismatch):  # even if the engine let it pass
            self.differences.add(name, self.tickets, sent, since)


FATES = st.sampled_from(["applied", "applied", "lost", "restarted", "repeated"])
WHOLE = st.lists(st.integers(-(2**20), 2**20), min_size=SIZE, max_size=SIZE)
SINGLE = st.lists(st.floats(-1e3, 1e3, width=32), min_size=SIZE, max_size=SIZE)


@given(st.lists(st.tuples(st.integers(0, DEVICES - 1), WHOLE, FATES), max_size=60))
def test_both_algorithms_are_equal_bit_for_bit_in_exact_arithmetic(jobs: list[tuple[int, list[int], str]]) -> None:
    """Whole numbers below 2²⁴ are exact in single precision, and so are their differences; the sums are double."""
    both = Both()
    for number, delta, fate in jobs:
        both.job(number, vector(*delta), fate)
        assert both.latest.total.tobytes() == both.differences.total.tobytes()


@given(st.lists(st.tuples(st.integers(0, DEVICES - 1), SINGLE, FATES), max_size=60))
def test_both_algorithms_are_equal_except_for_rounding_in_single_precision(
    jobs: list[tuple[int, list[float], str]],
) -> None:
    both = Both()
    for number, delta, fate in jobs:
        both.job(number, vector(*delta), fate)
        # each device's last difference (below 2·10³) was rounded once: half a unit in the last place each
        np.testing.assert_allclose(both.differences.total, both.latest.total, rtol=0, atol=DEVICES * 2e3 * 2**-24)


def test_rounding_errors_do_not_accumulate() -> None:
    draw, both = np.random.default_rng(0), Both(1000)
    naive, last = np.zeros(1000), [np.zeros(1000, np.float32)] * DEVICES
    for job in range(2000):
        number = job % DEVICES
        delta = draw.normal(size=1000).astype(np.float32)
        both.job(number, delta, "applied")
        naive += delta - last[number]  # as printed: the baseline is the last gradient itself
        last[number] = delta
    ours = float(np.abs(both.differences.total - both.latest.total).max())
    as_printed = float(np.abs(naive - both.latest.total).max())
    assert ours < 2e-6
    assert as_printed > 4 * ours
