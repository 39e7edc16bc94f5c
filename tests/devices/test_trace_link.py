"""Transfers over a link whose rate follows a trace, on the manual clock. 16 bytes a second are one model a second."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devices.link import transfer
from testbed.emulation.faults import TransferFate
from testbed.profile.schema import Direction
from testbed.traces import rate
from testbed.traces.availability import AvailabilityTrace
from testbed.traces.rate import RateTrace
from tests.devices.parts import LOST, SMOOTH, Bench, FixedTimetable
from tests.properties import examples

ONE_MODEL = 16 * 8 / 1e6
"""Mbit/s at which a model of four numbers takes a second."""
OUTAGE = RateTrace([0, 2, 10], [ONE_MODEL, 0, ONE_MODEL], 20)


@pytest.fixture
def trace(tmp_path: Path) -> str:
    rate.write(tmp_path / "rate.csv", OUTAGE)
    return str(tmp_path / "rate.csv")


# ---- one transfer


def test_a_transfer_takes_the_time_of_its_bytes_and_the_delay(trace: str) -> None:
    result = transfer(Direction(trace=trace, delay=0.25), 16, SMOOTH, now=0.5)
    assert (result.started, result.absent) == (0.5, 0.0)
    assert (result.asked, result.due) == pytest.approx((1.25, 1.75))


def test_a_transfer_that_begins_before_an_outage_ends_after_it(trace: str) -> None:
    result = transfer(Direction(trace=trace, delay=0.25), 16, SMOOTH, now=1.5)
    assert (result.asked, result.due) == pytest.approx((9.25, 10.75))  # half of it before, half of it after


def test_an_offset_is_the_moment_of_the_trace_at_which_the_run_begins(trace: str) -> None:
    result = transfer(Direction(trace=trace, trace_offset=19.5), 16, SMOOTH, now=2.0)
    assert result.due == pytest.approx(11.0)  # from 21.5 of the trace, which is 1.5 of its second period, to 30.5
    assert transfer(Direction(trace=trace, trace_offset=39.5), 16, SMOOTH, now=2.0).due == pytest.approx(result.due)


def test_jitter_adds_to_the_delay_and_noise_does_not_change_the_rate(trace: str) -> None:
    fate = TransferFate(dropped=False, delay_noise=-2.0, rate_noise=5.0)
    result = transfer(Direction(trace=trace, delay=0.25, jitter=0.125), 16, fate, now=0.0)
    assert result.asked == pytest.approx(1.5)


def test_a_lost_transfer_takes_as_long_as_one_that_arrives(trace: str) -> None:
    lost, arrived = (transfer(Direction(trace=trace), 16, fate, now=1.5) for fate in (LOST, SMOOTH))
    assert (lost.due, lost.dropped, arrived.dropped) == (arrived.due, True, False)


def test_rounding_never_makes_asked_less_than_the_delay(trace: str) -> None:
    for now in (0.1, 0.3, 1.7, 12345.678901):
        assert transfer(Direction(trace=trace, delay=0.1), 1, SMOOTH, now).asked >= 0.1


# ---- on a device


def test_a_download_that_begins_before_an_outage_ends_after_it(trace: str) -> None:
    bench = Bench(down=Direction(trace=trace, delay=0.25))
    bench.train(1, at=1.5)
    bench.run_until(20.0)
    [down] = bench.of_kind("downloaded")
    assert (down.sent, down.t, down.asked, down.obtained) == pytest.approx((1.5, 10.75, 9.25, 9.25))
    assert bench.dues[0][1] == pytest.approx(13.25)  # two seconds of training, half a second of upload


def test_an_upload_knows_when_it_is_due_before_the_outage_is_over(trace: str) -> None:
    bench = Bench(up=Direction(trace=trace), lead=0.125, down=Direction())
    bench.train(1, at=0.0, steps=3)  # trained at 1.5
    bench.run_until(20.0)
    [(moment, update)] = bench.delivered
    assert (moment, update.due) == pytest.approx((10.375, 10.5))
    [up] = bench.of_kind("uploaded")
    assert (up.sent, up.asked, up.obtained) == pytest.approx((1.5, 9.0, 9.0))


def test_a_retry_has_the_rate_of_its_own_time(trace: str) -> None:
    bench = Bench(FixedTimetable(uploads={(0, 0): LOST}), up=Direction(trace=trace), down=Direction())
    bench.train(1, at=0.0, steps=1)  # trained at 0.5, lost at 1.5
    bench.run_until(20.0)
    assert [event.asked for event in bench.of_kind("uploaded")] == pytest.approx([1.0, 9.0])
    assert bench.dues == [(1, pytest.approx(10.5))]


# ---- together with absences


def test_no_bytes_move_during_an_absence(trace: str) -> None:
    away = AvailabilityTrace([0, 1, 1.5], [1, 0, 1], 100)
    result = transfer(Direction(trace=trace, delay=0.25), 16, SMOOTH, 0.5, away.absences)
    # half a second until the absence; back at 1.5, half a second until the outage
    assert (result.due, result.asked, result.absent) == pytest.approx((2.25, 1.75, 0.5))
    later = transfer(Direction(trace=trace, delay=0.25), 20, SMOOTH, 0.5, away.absences)
    assert (later.due, later.absent) == pytest.approx((10.5, 0.5))  # four bytes more, after the outage


def test_a_device_that_is_present_only_during_outages_waits_for_ever(trace: str) -> None:
    away = AvailabilityTrace([0, 3, 9], [0, 1, 0], 20)
    result = transfer(Direction(trace=trace, delay=0.25), 16, SMOOTH, 0.5, away.absences)
    assert (result.due, result.asked) == (float("inf"), float("inf"))


@st.composite
def pieces(draw: st.DrawFn, values: st.SearchStrategy[float]) -> tuple[list[float], list[float], float]:
    lengths = draw(st.lists(st.floats(0.5, 20), min_size=1, max_size=6))
    found = draw(st.lists(values, min_size=len(lengths), max_size=len(lengths)))
    found[draw(st.integers(0, len(found) - 1))] = 1.0
    *times, period = accumulate(lengths, initial=0.0)
    return times, found, period


@examples(300)
@given(
    there=pieces(st.sampled_from([0.0, 1.0])),
    rates=pieces(st.one_of(st.just(0.0), st.floats(0.5, 10))),
    now=st.floats(0, 100),
    size=st.integers(1, 10_000_000),
)
def test_the_bytes_that_move_outside_absences_are_the_size_of_the_transfer(
    tmp_path_factory: pytest.TempPathFactory,
    there: tuple[list[float], list[float], float],
    rates: tuple[list[float], list[float], float],
    now: float,
    size: int,
) -> None:
    path = tmp_path_factory.mktemp("rates") / "rate.csv"
    trace, away = RateTrace(*rates), AvailabilityTrace(*there)
    rate.write(path, trace)
    result = transfer(Direction(trace=str(path)), size, SMOOTH, now, away.absences)
    if result.due == float("inf"):
        return
    passed, absent, moment = 0.0, 0.0, now
    for gone, back in away.absences(now):
        passed += trace.bytes_between(moment, max(moment, min(gone, result.due)))
        if gone >= result.due - 1e-9:
            break
        absent, moment = absent + back - max(now, gone), back
    else:
        passed = trace.bytes_between(now, result.due)
    assert passed == pytest.approx(size, rel=1e-6, abs=0.1)
    assert result.absent == pytest.approx(absent)
