"""The recorded availability of a device over a period, which repeats.

The file format is CSV (or ``.csv.gz``) with the header ``t_s,available``: from each time on, 1 (available) or 0 (away).
Times begin at 0 and increase; the last row has no value and marks the end of the period.
"""

from __future__ import annotations

import functools
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from testbed.common.errors import UserError
from testbed.traces import value_table

_COLUMN, _UNIT = "available", "seconds, 1 or 0"

Absence: TypeAlias = tuple[float, float]
"""Beginning and end of a time in which a device is away."""


class AvailabilityTrace:
    """Availability over time."""

    def __init__(self, times: Iterable[float], available: Iterable[float], period: float) -> None:
        """``times``: when each value (1 or 0) begins; the first is 0. Raises ValueError."""
        rows = list(zip(times, available, strict=True))
        self.period = float(period)
        value_table.check([moment for moment, _ in rows], len(rows), self.period)
        if not all(value in (0, 1) for _, value in rows):
            raise ValueError("availability is 1 or 0")
        if not any(value for _, value in rows):
            raise ValueError("the device is never available")
        self._times, self._available = array("d", (row[0] for row in rows)), array("b", (int(row[1]) for row in rows))
        absences = list(self._merged())
        self._gone = array("d", (gone for gone, _ in absences))
        self._back = array("d", (back for _, back in absences))

    @property
    def share(self) -> float:
        """The share of the time in which the device is available."""
        return 1.0 - (sum(self._back) - sum(self._gone)) / self.period

    @property
    def pieces(self) -> Iterator[tuple[float, float]]:
        """The beginning of each piece, and its value."""
        return zip(self._times, self._available, strict=True)

    def absences(self, since: float, offset: float = 0.0) -> Iterator[Absence]:
        """Yield all absences in order, without end, from the first that ends after ``since``.

        ``offset``: the position in the trace at time 0.
        """
        if not self._gone:
            return
        periods, place = divmod(since + offset, self.period)
        first = bisect_right(self._back, place)
        if self._back[-1] - self.period > place:  # the last absence of a period may reach into the next
            periods, first = periods - 1, len(self._back) - 1
        while True:
            began = periods * self.period - offset
            for gone, back in zip(self._gone[first:], self._back[first:], strict=True):
                if began + back > since:
                    yield began + gone, began + back
            periods, first = periods + 1, 0

    def _merged(self) -> Iterator[Absence]:
        """Yield the absences of a period. One that continues in the next period ends after the end of this one."""
        rows = [*self.pieces, *((self.period + moment, value) for moment, value in self.pieces)]
        gone: float | None = None
        before: float = self._available[-1]
        for moment, value in rows:
            if not value and before and moment < self.period:
                gone = moment
            elif value and gone is not None:
                yield gone, moment
                gone = None
            before = value


def read(path: Path) -> AvailabilityTrace:
    """Read a file. Raises UserError with the number of the line."""
    times, available, period = value_table.read(path, _COLUMN, _UNIT, _flag)
    try:
        return AvailabilityTrace(times, available, period)
    except ValueError:  # the rest has been checked line by line
        raise UserError(
            f"{path}: {_COLUMN} is 0 in every row: the device would never be available; add a row with 1"
        ) from None


def write(path: Path, trace: AvailabilityTrace) -> None:
    value_table.write(path, _COLUMN, trace.pieces, trace.period)


@functools.cache
def load(path: str) -> AvailabilityTrace:
    """Read a file once in a process, as :func:`testbed.traces.rate.load` does."""
    return read(Path(path))


def _flag(text: str) -> float:
    if text not in ("0", "1"):
        raise value_table.BadValue("it must be 1 (available) or 0 (away)")
    return float(text)
