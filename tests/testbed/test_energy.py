"""Joules from seconds and watts, worked out by hand."""

from __future__ import annotations

import pytest

from testbed.energy import joules
from testbed.trace import Watts

BOARD = Watts(idle=2.5, compute=6.0)


@pytest.mark.parametrize(
    ("seconds", "computing", "expected"),
    [
        (10.0, 4.0, 6.0 * 4 + 2.5 * 6),
        (10.0, 0.0, 25.0),
        (10.0, 10.0, 60.0),
        (10.0, 12.0, 72.0),  # what is told after the end is not idle time that is given back
        (0.0, 0.0, 0.0),
    ],
)
def test_a_device_draws_its_watts_while_it_computes_and_those_of_idleness_else(
    seconds: float, computing: float, expected: float
) -> None:
    assert joules(BOARD, seconds, computing) == expected


def test_without_a_power_model_there_are_no_joules() -> None:
    assert joules(None, 10.0, 4.0) is None
