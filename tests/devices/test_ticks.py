"""Uploads that are tried once in each tick."""

from __future__ import annotations

import dataclasses
import itertools
import math

import pytest

from testbed.emulation.faults import timetable
from testbed.profile.schema import Direction
from tests.devices.parts import LOST, SPEC, Bench, FixedTimetable

TICKS = (0.1, 0.3, 0.7, 1.1, 2.3)
ATTEMPTS = 8


def rounded_down(tick: float, above: int) -> int:
    """Return the first k above a number for which (k·tick)/tick is less than k."""
    return next(k for k in range(above + 1, above + 1_000_000) if k * tick / tick < k)


def attempts(tick: float, at: float, up: Direction, **changes: float) -> list[float]:
    """Return the moments of all attempts at an upload that is often lost, for a job of one step that begins ``at``."""
    lost = {(0, attempt): LOST for attempt in range(ATTEMPTS - 1)}
    bench = Bench(FixedTimetable(uploads=lost), on_drop="next_tick", tick=tick, down=Direction(), up=up, **changes)
    bench.train(1, steps=1, at=at)
    bench.run_until(at + 10 * ATTEMPTS * tick)
    assert len(bench.delivered) == 1
    return [event.sent for event in bench.of_kind("uploaded")]


@pytest.mark.parametrize("above", [0, 1000, 1_000_000])
@pytest.mark.parametrize("tick", TICKS)
def test_no_two_attempts_are_made_in_one_interval_although_k_ticks_divided_by_a_tick_may_be_less_than_k(
    tick: float, above: int
) -> None:
    k = rounded_down(tick, above)
    assert math.floor(k * tick / tick) == k - 1  # without a correction, tick k would lie in the interval before it
    begins = (k - 2.5) * tick
    made = attempts(tick, begins, Direction(), seconds_per_sample=1e-9)
    assert made[0] == pytest.approx(begins)
    assert made[1:] == [(k - 2 + number) * tick for number in range(ATTEMPTS - 1)]


@pytest.mark.parametrize("tick", TICKS)
def test_an_upload_that_takes_a_part_of_a_tick_is_tried_at_every_tick(tick: float) -> None:
    k = rounded_down(tick, 0)
    made = attempts(tick, (k - 2.5) * tick, Direction(delay=tick / 4), seconds_per_sample=1e-9)
    assert made[1:] == [(k - 2 + number) * tick for number in range(ATTEMPTS - 1)]


@pytest.mark.parametrize("tick", TICKS)
def test_an_upload_that_takes_just_a_tick_is_tried_at_every_second_one(tick: float) -> None:
    k = rounded_down(tick, 0)
    made = attempts(tick, k * tick, Direction(delay=tick), seconds_per_sample=1e-12)
    steps = [round((later - earlier) / tick, 6) for earlier, later in itertools.pairwise(made[1:])]
    assert steps == [2.0] * (ATTEMPTS - 2)


def test_ticks_are_those_of_the_run_and_not_of_the_device() -> None:
    made = attempts(2.0, 5.5, Direction(), seconds_per_sample=1 / 64)  # a step of half a second
    assert made == [6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0, 20.0]
    made = attempts(2.0, 5.75, Direction(), seconds_per_sample=1 / 64)
    assert made == [6.25, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0, 20.0]


@pytest.mark.parametrize("phi", [0.2, 0.5, 0.8])
def test_an_upload_that_arrives_with_phi_is_late_by_1_over_phi_minus_1_ticks_in_the_mean(
    phi: float,
) -> None:
    tick, jobs = 0.25, 2000
    spec = dataclasses.replace(SPEC, on_drop="next_tick", tick=tick, up=Direction(drop=1 - phi), down=Direction())
    bench = Bench(timetable(spec, seed=11), on_drop="next_tick", tick=tick, up=spec.up, down=spec.down)
    late = []
    for ticket in range(1, jobs + 1):
        bench.train(ticket, steps=1)
        while len(bench.delivered) < ticket:
            bench.run_until(bench.device.due())
        _, update = bench.delivered[-1]
        late.append(math.floor(update.due / tick) - math.floor(update.finished / tick))
    assert len(bench.of_kind("uploaded")) == jobs + sum(late)  # one attempt for each tick
    deviation = math.sqrt(1 - phi) / phi  # of the geometric distribution
    assert sum(late) / jobs == pytest.approx(1 / phi - 1, abs=3 * deviation / math.sqrt(jobs))
    assert late.count(0) / jobs == pytest.approx(phi, abs=0.04)
