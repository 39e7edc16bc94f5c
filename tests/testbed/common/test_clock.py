from __future__ import annotations

from types import SimpleNamespace

import pytest

from testbed.common.clock import ManualClock, WallClock


def test_a_manual_clock_moves_only_when_it_is_advanced() -> None:
    clock = ManualClock()
    assert (clock.now(), clock.now()) == (0.0, 0.0)
    clock.advance_to(2.5)
    clock.advance_to(2.5)
    assert clock.now() == 2.5


def test_a_manual_clock_does_not_go_back() -> None:
    clock = ManualClock(2.5)
    with pytest.raises(ValueError, match=r"from 2\.5 to 2\.0"):
        clock.advance_to(2.0)
    assert clock.now() == 2.5


def test_a_wall_clock_counts_emulated_seconds_from_its_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("testbed.common.clock.time", SimpleNamespace(monotonic=lambda: 106.0, sleep=slept.append))
    clock = WallClock(origin=100.0, dilation=2.0)
    assert clock.now() == 3.0
    assert clock.host_seconds(3.0) == 6.0
    assert WallClock.starting_now().now() == 0.0
    clock.sleep_until(5.0)
    clock.sleep_until(2.0)
    assert slept == [4.0]  # emulated 3 to 5 is four host seconds; a moment that has passed needs no sleep
