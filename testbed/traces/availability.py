"""When a device is there, as it was recorded: over a period, which is repeated for ever.

The file format is a CSV (or ``.csv.gz``) with the header ``t_s,available``: from each time on, 1 (there) or 0 (away).
Times begin at 0 and increase; the last row has neither and marks the end of the period.
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
"""From when on a device is away, and when it is back."""


class AvailabilityTrace:
    """Presence and absence over time."""

    def __init__(self, times: Iterable[float], available: Iterable[float], period: float) -> None:
        """``times``: when each value (1 or 0) begins to hold; the first is 0. Raises ValueError."""
        rows = list(zip(times, available, strict=True))
        self.period = float(period)
        value_table.check([moment for moment, _ in rows], len(rows), self.period)
        if not all(value in (0, 1) for _, value in rows):
            raise ValueError("availability is 1 or 0")
        if not any(value for _, value in rows):
            raise ValueError("the device is never there")
        self._times, self._available = array("d", (row[0] for row in rows)), array("b", (int(row[1]) for row in rows))
        absences = list(self._merged())
        self._gone = array("d", (gone for gone, _ in absences))
        self._back = array("d", (back for _, back in absences))

    @property
    def share(self) -> float:
        """Of the time in which the device is there."""
        return 1.0 - (sum(self._back) - sum(self._gone)) / self.period

    @property
    def pieces(self) -> Iterator[tuple[float, float]]:
        """When each value begins to hold, and the value."""
        return zip(self._times, self._available, strict=True)

    def absences(self, since: float, offset: float = 0.0) -> Iterator[Absence]:
        """In order, for ever, from the first on that ends after ``since``, which may have begun before it.

        ``offset``: the place in the trace at which time 0 is.
        """
        if not self._gone:
            return
        turn, place = divmod(since + offset, self.period)
        first = bisect_right(self._back, place)
        if self._back[-1] - self.period > place:  # the last absence of a period may reach into the next
            turn, first = turn - 1, len(self._back) - 1
        while True:
            began = turn * self.period - offset
            for gone, back in zip(self._gone[first:], self._back[first:], strict=True):
                if began + back > since:
                    yield began + gone, began + back
            turn, first = turn + 1, 0

    def _merged(self) -> Iterator[Absence]:
        """The absences of a period; one that goes on when the period begins anew ends behind its end."""
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
    """Raises UserError, with the number of the line."""
    times, available, period = value_table.read(path, _COLUMN, _UNIT, _flag)
    try:
        return AvailabilityTrace(times, available, period)
    except ValueError:  # the rest has been checked line by line
        raise UserError(
            f"{path}: {_COLUMN} is 0 in every row: the device would never be there; give it at least one row with 1"
        ) from None


def write(path: Path, trace: AvailabilityTrace) -> None:
    value_table.write(path, _COLUMN, trace.pieces, trace.period)


@functools.cache
def load(path: str) -> AvailabilityTrace:
    """Read once in a process, as rates are."""
    return read(Path(path))


def _flag(text: str) -> float:
    if text not in ("0", "1"):
        raise value_table.BadValue("it must be 1 (there) or 0 (away)")
    return float(text)
