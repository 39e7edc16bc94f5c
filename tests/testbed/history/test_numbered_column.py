"""Columns by row number."""

from __future__ import annotations

import math

import numpy as np

from testbed.history.numbered_column import NumberedColumn


def test_a_row_without_a_number_is_missing() -> None:
    column = NumberedColumn("b", 0)
    column[1000] = 3
    assert [column[number] for number in (0, 999, 1000, 1001, 1 << 50, -5)] == [0, 0, 3, 0, 0, 0]


def test_ranges_that_are_far_apart_keep_their_numbers() -> None:
    column = NumberedColumn("d", math.nan)
    places = [first + i for first in (0, 1 << 24, 5 << 40) for i in range(300)]
    for place in places:
        column[place] = place / 2
    assert [column[place] for place in places] == [place / 2 for place in places]
    assert math.isnan(column[300])


def test_pages_hold_all_numbers() -> None:
    column = NumberedColumn("l", -1)
    for number in range(1, 1001):
        column[number] = 2 * number
    found = {
        first + int(place): int(numbers[place])
        for first, numbers in column.pages()
        for place in np.flatnonzero(numbers >= 0)
    }
    assert found == {number: 2 * number for number in range(1, 1001)}
    column.clear()
    assert list(column.pages()) == []
