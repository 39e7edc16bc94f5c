"""The latest update of each device and their sum."""

from __future__ import annotations

from aggregator.strategy.latest_updates import LatestUpdates
from tests.aggregator.strategies.by_hand import vector


def test_the_sum_has_the_latest_update_of_each_device() -> None:
    latest = LatestUpdates(vector(0, 0))
    latest.replace("a", vector(1, 2))
    latest.replace("b", vector(10, 20))
    latest.replace("a", vector(3, 4))
    assert latest.total.tolist() == [13.0, 24.0]
    assert (latest.devices, latest.get("c")) == (2, None)


def test_a_removed_update_is_not_in_the_sum() -> None:
    latest = LatestUpdates(vector(0))
    latest.replace("a", vector(1))
    latest.replace("b", vector(2))
    latest.remove("a")
    latest.remove("c")
    assert (latest.total.tolist(), latest.devices, latest.get("a")) == ([2.0], 1, None)


def test_rounding_errors_do_not_stay_in_the_sum() -> None:
    latest = LatestUpdates(vector(0))
    latest.replace("small", vector(0.1))
    for _ in range(1000):
        latest.replace("large", vector(1e6))
    latest.remove("large")
    assert abs(latest.total[0] - float(vector(0.1)[0])) < 1e-6
