"""Duration of transfers under a changing rate: examples computed by hand, and random ones."""

from __future__ import annotations

import math
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.traces.rate import RateTrace
from tests.properties import examples

MB = 1_000_000
# ten seconds of 1 MB/s, an outage of five, five of half a MB/s: 12.5 MB in twenty seconds
STEPS = RateTrace([0, 10, 15], [8, 0, 4], 20)
ENDS_IN_OUTAGE = RateTrace([0, 1], [8, 0], 10)
BEGINS_IN_OUTAGE = RateTrace([0, 9], [0, 8], 10)


def test_the_mean_is_in_bits_per_second_and_counts_the_outage() -> None:
    assert (STEPS.mean, STEPS.period) == (5e6, 20.0)


@pytest.mark.parametrize(
    ("start", "end", "passed"),
    [
        (0, 20, 12.5 * MB),
        (9, 16, 1.5 * MB),  # a second before the outage, a second at half the rate after it
        (12, 14, 0),
        (7, 7, 0),
        (18, 22, 3 * MB),  # two seconds at half the rate, and two in the next period
        (0, 200, 125 * MB),
        (31, 33, 0),
    ],
)
def test_bytes_pass_at_the_rate_of_each_piece(start: float, end: float, passed: float) -> None:
    assert STEPS.bytes_between(start, end) == pytest.approx(passed)


@pytest.mark.parametrize(
    ("start", "size", "end"),
    [
        (0, 5 * MB, 5),
        (3, 0, 3),
        (12, 0, 12),
        (9, 1.5 * MB, 16),  # one second before the outage; the rest a second after it
        (12, 0.5 * MB, 16),  # begins in the outage
        (18, 3 * MB, 22),  # one MB until the end of the period, two after it
        (15, 2.5 * MB, 20),
        (38, 1.5 * MB, 40.5),
        (0, 1000 * 12.5 * MB + 1 * MB, 20_001),
        (0, 1e15, 1.6e9),  # 80,000,000 whole periods
        (5, 1e15, 1.6e9 + 5),
    ],
)
def test_a_transfer_crosses_pieces_outages_and_wraps(start: float, size: float, end: float) -> None:
    assert STEPS.when(start, size) == pytest.approx(end, rel=1e-12)


def test_a_transfer_that_ends_with_a_piece_does_not_wait_for_the_outage_after_it() -> None:
    assert STEPS.when(9, 1 * MB) == 10.0
    assert STEPS.when(9, 1 * MB + 1) == pytest.approx(15.000002)
    assert ENDS_IN_OUTAGE.when(0, 1 * MB) == 1.0
    assert ENDS_IN_OUTAGE.when(0, 7 * MB) == 61.0
    assert BEGINS_IN_OUTAGE.when(0, 1 * MB) == 10.0
    assert BEGINS_IN_OUTAGE.when(0, 7 * MB) == 70.0


def test_rounding_does_not_make_a_transfer_wait_for_a_part_of_a_byte() -> None:
    # 0.1 + 0.2 > 0.3: about 10⁻¹¹ of the 37,500 bytes in 0.3 s would be left until after the outage
    trace = RateTrace([0, 0.1 + 0.2], [1, 0], 100)
    assert trace.when(0.0, 0.3 * 125_000) == pytest.approx(0.3)
    assert RateTrace([0, 0.3], [1, 0], 100).when(0.0, (0.1 + 0.2) * 125_000) == pytest.approx(0.3)


def test_at_a_constant_rate_the_duration_is_bytes_over_rate() -> None:
    assert RateTrace([0], [2], 7).when(3.0, 2.5 * MB) == pytest.approx(13.0)


@pytest.mark.parametrize(
    ("times", "mbps", "period"),
    [
        ([], [], 1),
        ([0, 1], [1], 2),
        ([0.5], [1], 2),
        ([0, 1, 1], [1, 2, 3], 2),
        ([0, 2], [1, 2], 2),
        ([0], [1], math.inf),
        ([0], [-1], 1),
        ([0], [math.nan], 1),
        ([0], [math.inf], 1),
        ([0, 1], [0, 0], 2),
        ([0], [1e-9], 1),
        ([0], [1e305], 1),
    ],
)
def test_an_invalid_trace_is_refused(times: list[float], mbps: list[float], period: float) -> None:
    with pytest.raises(ValueError):
        RateTrace(times, mbps, period)


# ---- any trace


@st.composite
def traces(draw: st.DrawFn) -> RateTrace:
    lengths = draw(st.lists(st.floats(0.001, 100), min_size=1, max_size=12))
    rates = draw(st.lists(st.one_of(st.just(0.0), st.floats(0.01, 1000)), min_size=len(lengths), max_size=len(lengths)))
    rates[draw(st.integers(0, len(rates) - 1))] = draw(st.floats(1.0, 1000))
    *times, period = accumulate(lengths, initial=0.0)
    return RateTrace(times, rates, period)


STARTS, SIZES = st.floats(0, 10_000), st.floats(1, 1e8)


@examples(500)
@given(trace=traces(), start=STARTS, size=SIZES)
def test_the_bytes_until_the_end_of_a_transfer_are_its_size(trace: RateTrace, start: float, size: float) -> None:
    end = trace.when(start, size)
    fastest = max(rate for _, rate in trace.pieces) * 125_000
    tolerance = 0.01 + 8 * math.ulp(end) * fastest
    assert end >= start
    assert trace.bytes_between(start, end) == pytest.approx(size, rel=1e-9, abs=tolerance)


@examples(500)
@given(trace=traces(), start=STARTS, size=SIZES, more=st.floats(0, 1e8), later=st.floats(0, 1000))
def test_a_larger_or_later_transfer_never_ends_earlier(
    trace: RateTrace, start: float, size: float, more: float, later: float
) -> None:
    end = trace.when(start, size)
    rounding = 1e-6 + 4 * math.ulp(end)
    assert trace.when(start, size + more) >= end - rounding
    # a thousandth of a byte is ignored: at 1,250 bytes per second, that is less than a microsecond
    assert trace.when(start + later, size) >= end - rounding


@examples(300)
@given(trace=traces(), moments=st.tuples(STARTS, STARTS, STARTS))
def test_bytes_of_two_adjacent_spans_add_up(trace: RateTrace, moments: tuple[float, float, float]) -> None:
    first, middle, last = sorted(moments)
    whole = trace.bytes_between(first, last)
    assert whole >= -0.01
    parts = trace.bytes_between(first, middle) + trace.bytes_between(middle, last)
    assert parts == pytest.approx(whole, rel=1e-9, abs=0.1)
