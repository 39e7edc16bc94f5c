"""Gradient calibration, Algorithms 1 and 4 of Chen et al. 2024: by hand, and that they are the same (Theorem 2)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.strategies.asafl.gradient_memory import Differences, Latest, Mismatch
from devices.baseline import Baseline
from testbed.wire.messages import Vector
from tests.aggregator.strategies.by_hand import vector

DEVICES = 4
SIZE = 3


# ---- by hand


def test_three_rounds_of_algorithm_1_by_hand() -> None:
    server = Latest(vector(0, 0))
    server.take("a", vector(4, 0))
    # three of four were never heard, their gradient is 0:  ¼·(4, 0)
    assert server.mean(4).tolist() == [1.0, 0.0]
    server.take("b", vector(0, 8))
    server.take("c", vector(4, 4))
    # ¼·((4, 0) + (0, 8) + (4, 4)): a was not heard, and counts
    assert server.mean(4).tolist() == [2.0, 3.0]
    server.take("a", vector(-8, 0))
    # the new one of a replaces its old one:  ¼·((−8, 0) + (0, 8) + (4, 4))
    assert server.mean(4).tolist() == [-1.0, 3.0]
    assert server.mean(2).tolist() == [-2.0, 6.0]  # as many devices as there are by now


def test_three_rounds_of_algorithm_4_by_hand() -> None:
    server, a, b = Differences(vector(0)), Baseline(1), Baseline(1)
    first, since = a.difference(1, vector(4))
    assert (first.tolist(), since) == ([4.0], 0)  # 4 − 0
    server.take("a", 1, first, since)
    assert server.mean(2).tolist() == [2.0]
    a.told(server.last_applied("a"))

    lost, since = a.difference(3, vector(10))
    assert (lost.tolist(), since) == ([6.0], 1)  # 10 − 4, and it never gets there
    other, since = b.difference(2, vector(-2))
    server.take("b", 2, other, since)
    assert server.mean(2).tolist() == [1.0]  # ½·(4 − 2)

    a.told(server.last_applied("a"))  # 1, as before: what was lost does not count
    again, since = a.difference(4, vector(6))
    assert (again.tolist(), since) == ([2.0], 1)  # 6 − 4, and not 6 − 10
    server.take("a", 4, again, since)
    assert server.mean(2).tolist() == [2.0]  # ½·(6 − 2)


def test_a_difference_that_is_counted_from_something_else_is_refused() -> None:
    server, device = Differences(vector(0)), Baseline(1)
    server.take("a", 1, *device.difference(1, vector(4)))
    # the device was not told, and counts from 0 again
    with pytest.raises(Mismatch, match="counted from ticket 0, but 1 was taken last"):
        server.take("a", 2, *device.difference(2, vector(5)))
    assert server.total.tolist() == [4.0]


def test_a_device_that_has_forgotten_everything_is_refused() -> None:
    server = Differences(vector(0))
    device = Baseline(1)
    server.take("a", 1, *device.difference(1, vector(4)))
    born_again = Baseline(1)
    born_again.told(server.last_applied("a"))
    with pytest.raises(Mismatch):
        server.take("a", 2, *born_again.difference(2, vector(5)))


def test_being_told_twice_is_being_told_once() -> None:
    server, device = Differences(vector(0)), Baseline(1)
    server.take("a", 1, *device.difference(1, vector(4)))
    for _ in range(3):
        device.told(server.last_applied("a"))
    assert device.difference(2, vector(5))[0].tolist() == [1.0]


def test_what_is_sent_does_not_change_afterwards() -> None:
    device = Baseline(1)
    sent, _ = device.difference(1, vector(4))
    device.told(1)
    assert sent.tolist() == [4.0]
    with pytest.raises(ValueError, match="read-only"):
        sent += 1


# ---- Theorem 2, over any schedule, with losses


class Both:
    """The same devices under both algorithms. A job ends in one of four ways."""

    def __init__(self, size: int = SIZE) -> None:
        zero = np.zeros(size, np.float32)
        self.latest, self.differences = Latest(zero), Differences(zero)
        self.devices = [Baseline(size) for _ in range(DEVICES)]
        self.tickets = 0

    def job(self, number: int, delta: Vector, fate: str) -> None:
        self.tickets += 1
        name, device = f"device-{number}", self.devices[number]
        if fate == "restarted":  # before it had anything to send
            return
        # a Train begins a job, and says what was taken; one that is lost on its way begins none
        device.told(self.differences.last_applied(name))
        sent, since = device.difference(self.tickets, delta)
        if fate == "taken":
            self.latest.take(name, delta)
            self.differences.take(name, self.tickets, sent, since)
        elif fate == "repeated":  # the second one has no open ticket: the engine ignores it
            self.job_repeated(name, delta, sent, since)

    def job_repeated(self, name: str, delta: Vector, sent: Vector, since: int) -> None:
        self.latest.take(name, delta)
        self.differences.take(name, self.tickets, sent, since)
        with pytest.raises(Mismatch):  # and if it did not, the server would
            self.differences.take(name, self.tickets, sent, since)


FATES = st.sampled_from(["taken", "taken", "lost", "restarted", "repeated"])
WHOLE = st.lists(st.integers(-(2**20), 2**20), min_size=SIZE, max_size=SIZE)
SINGLE = st.lists(st.floats(-1e3, 1e3, width=32), min_size=SIZE, max_size=SIZE)


@given(st.lists(st.tuples(st.integers(0, DEVICES - 1), WHOLE, FATES), max_size=60))
def test_both_algorithms_are_equal_bit_for_bit_in_exact_arithmetic(jobs: list[tuple[int, list[int], str]]) -> None:
    """Whole numbers below 2²⁴ are exact in single precision, and so are their differences; the sums are double."""
    both = Both()
    for number, delta, fate in jobs:
        both.job(number, vector(*delta), fate)
        assert both.latest.total.tobytes() == both.differences.total.tobytes()
        assert both.latest.mean(DEVICES).tobytes() == both.differences.mean(DEVICES).tobytes()


@given(st.lists(st.tuples(st.integers(0, DEVICES - 1), SINGLE, FATES), max_size=60))
def test_both_algorithms_are_equal_but_for_rounding_in_single_precision(
    jobs: list[tuple[int, list[float], str]],
) -> None:
    both = Both()
    for number, delta, fate in jobs:
        both.job(number, vector(*delta), fate)
        # each device's last difference (below 2·10³) was rounded once: half a unit in the last place each
        np.testing.assert_allclose(both.differences.total, both.latest.total, rtol=0, atol=DEVICES * 2e3 * 2**-24)


def test_rounding_does_not_add_up() -> None:
    draw, both = np.random.default_rng(0), Both(1000)
    naive, last = np.zeros(1000), [np.zeros(1000, np.float32)] * DEVICES
    for turn in range(2000):
        number = turn % DEVICES
        delta = draw.normal(size=1000).astype(np.float32)
        both.job(number, delta, "taken")
        naive += delta - last[number]  # as printed: counted from the last gradient itself
        last[number] = delta
    ours = float(np.abs(both.differences.total - both.latest.total).max())
    as_printed = float(np.abs(naive - both.latest.total).max())
    assert ours < 2e-6
    assert as_printed > 4 * ours
