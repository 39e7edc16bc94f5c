"""A column of numbers by row number, for rows that are numbered nearly without gaps, such as the tickets of a run.

A number takes its own 1 to 8 bytes and about 2 more; as an entry of a dictionary it would take about a hundred. Pages
of 128 numbers keep that so for several ranges of row numbers, and bound what a foreign trace with any numbers can take.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

_PAGE_BITS = 7
_PAGE = 1 << _PAGE_BITS
_IN_PAGE = _PAGE - 1


class NumberedColumn:
    """Row number → number; ``missing`` where none was set. ``kind`` is a type code of ``array``."""

    def __init__(self, kind: str, missing: float) -> None:
        self._empty: array[Any] = array(kind, [missing] * _PAGE)
        self._missing: float = self._empty[0]
        self._pages: dict[int, array[Any]] = {}

    def __getitem__(self, number: int) -> float:
        page = self._pages.get(number >> _PAGE_BITS)
        found: float = self._missing if page is None else page[number & _IN_PAGE]
        return found

    def __setitem__(self, number: int, value: float) -> None:
        page = self._pages.get(number >> _PAGE_BITS)
        if page is None:
            page = self._pages[number >> _PAGE_BITS] = self._empty[:]
        page[number & _IN_PAGE] = value

    def pages(self) -> Iterator[tuple[int, npt.NDArray[np.float64]]]:
        """The first row number of each page, and its numbers; pages in the order in which they were begun."""
        for page, numbers in self._pages.items():
            yield page << _PAGE_BITS, np.array(numbers, np.float64)

    def clear(self) -> None:
        self._pages.clear()
