"""Absences of a device: examples computed by hand, and random ones."""

from __future__ import annotations

from itertools import accumulate, islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.traces.availability import AvailabilityTrace
from tests.properties import examples

# away from 2 to 5, and from 8 over the end at 10 until 1 in the next period
WRAPPED = AvailabilityTrace([0, 1, 2, 5, 8], [0, 1, 0, 1, 0], 10)


def first(trace: AvailabilityTrace, since: float, offset: float = 0.0, count: int = 3) -> list[tuple[float, float]]:
    return list(islice(trace.absences(since, offset), count))


def test_absences_are_in_order_and_do_not_end() -> None:
    assert first(WRAPPED, 1.5, count=5) == [(2, 5), (8, 11), (12, 15), (18, 21), (22, 25)]


@pytest.mark.parametrize(
    ("since", "found"),
    [
        (0.5, (-2, 1)),  # it began in the previous period
        (1.0, (2, 5)),  # it has just returned
        (2.0, (2, 5)),
        (4.5, (2, 5)),
        (5.0, (8, 11)),
        (10.25, (8, 11)),
        (1000.5, (998, 1001)),
        (1006.0, (1008, 1011)),
    ],
)
def test_the_first_absence_is_that_which_ends_after_the_moment(since: float, found: tuple[float, float]) -> None:
    assert first(WRAPPED, since, count=1) == [found]


def test_an_offset_is_the_position_at_which_the_run_begins() -> None:
    assert first(WRAPPED, 0.0, offset=4.0) == [(-2, 1), (4, 7), (8, 11)]
    assert first(WRAPPED, 0.0, offset=24.0) == [(-2, 1), (4, 7), (8, 11)]


def test_rows_of_equal_value_are_one_absence() -> None:
    trace = AvailabilityTrace([0, 1, 2, 3], [1, 0, 0, 1], 4)
    assert first(trace, 0.0) == [(1, 3), (5, 7), (9, 11)]


def test_a_device_that_is_always_available_is_never_away() -> None:
    trace = AvailabilityTrace([0, 5], [1, 1], 10)
    assert (first(trace, 0.0), trace.share) == ([], 1.0)


def test_the_share_is_that_of_the_time_in_which_the_device_is_available() -> None:
    assert WRAPPED.share == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("times", "available"),
    [([], []), ([1], [1]), ([0, 0], [1, 0]), ([0, 20], [1, 0]), ([0], [0]), ([0], [2])],
)
def test_an_invalid_trace_is_refused(times: list[float], available: list[int]) -> None:
    with pytest.raises(ValueError):
        AvailabilityTrace(times, available, 10)


@st.composite
def traces(draw: st.DrawFn) -> AvailabilityTrace:
    lengths = draw(st.lists(st.floats(0.01, 100), min_size=1, max_size=10))
    flags = draw(st.lists(st.integers(0, 1), min_size=len(lengths), max_size=len(lengths)))
    flags[draw(st.integers(0, len(flags) - 1))] = 1
    *times, period = accumulate(lengths, initial=0.0)
    return AvailabilityTrace(times, flags, period)


@examples(500)
@given(trace=traces(), since=st.floats(0, 10_000), offset=st.floats(0, 1000))
def test_absences_do_not_overlap_and_are_the_same_from_any_moment(
    trace: AvailabilityTrace, since: float, offset: float
) -> None:
    seen = first(trace, since, offset, count=6)
    if not seen:
        assert trace.share == 1.0
        return
    assert seen[0][1] > since
    assert all(gone < back for gone, back in seen)
    assert all(back < gone for (_, back), (gone, _) in pairwise(seen))
    # exactly equal: transfers and computing of a device must use the same absences
    assert first(trace, (seen[2][1] + seen[3][0]) / 2, offset) == seen[3:]
