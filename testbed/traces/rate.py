"""The rate of a link as it was recorded: constant by pieces over a period, which is repeated for ever.

The file format is a CSV (or ``.csv.gz``) with the header ``t_s,mbps``: from each time on, that rate (10⁶ bit/s).
Times begin at 0 and increase; the last row has no rate and marks the end of the period.
"""

from __future__ import annotations

import functools
import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path

from testbed.common.errors import UserError
from testbed.traces import value_table

_COLUMN, _UNIT = "mbps", "seconds, Mbit/s"
_BYTES = 1e6 / 8
"""Per second, at 1 Mbit/s."""
_MOST = 1e6
"""Mbit/s, a terabit a second: what is more was meant in another unit."""
_ROUNDING = 1e-3
"""Of a byte: so little is not waited for, or a transfer that ends with a piece might sit out the outage after it."""


class RateTrace:
    """A rate over time. Moments may be beyond the period: it wraps around."""

    def __init__(self, times: Iterable[float], mbps: Iterable[float], period: float) -> None:
        """``times``: when each rate begins to hold; the first is 0. Raises ValueError."""
        # arrays, not lists: what processes share after a fork stays shared, since nobody counts references in it
        self._times, self._mbps, self.period = array("d", times), array("d", mbps), float(period)
        value_table.check(list(self._times), len(self._mbps), self.period)
        if not all(0 <= rate <= _MOST for rate in self._mbps):
            raise ValueError(f"a rate is not negative, and at most {_MOST:,.0f} Mbit/s")
        ends = [*self._times[1:], self.period]
        lengths = (end - begin for begin, end in zip(self._times, ends, strict=True))
        moved = (length * rate * _BYTES for length, rate in zip(lengths, self._mbps, strict=True))
        self._passed = array("d", accumulate(moved, initial=0.0))
        """Bytes that have passed when each piece begins; and at the end."""
        self._total = self._passed[-1]
        if not 1.0 <= self._total < math.inf:
            raise ValueError("less than a byte, or more than a number holds, passes in a period")

    @property
    def mean(self) -> float:
        """In bit/s."""
        return self._total * 8 / self.period

    @property
    def pieces(self) -> Iterator[tuple[float, float]]:
        """When each rate begins to hold, and the rate in Mbit/s."""
        return zip(self._times, self._mbps, strict=True)

    def bytes_between(self, start: float, end: float) -> float:
        """Bytes that pass from ``start`` to ``end``."""
        first, before = divmod(start, self.period)
        last, after = divmod(end, self.period)
        return (last - first) * self._total + self._passed_at(after) - self._passed_at(before)

    def when(self, start: float, size: float) -> float:
        """The moment at which the last of ``size`` bytes has passed, the first of which sets out at ``start``."""
        if size <= _ROUNDING:
            return start
        place = start % self.period
        periods, rest = divmod(self._passed_at(place) + size, self._total)
        if rest <= _ROUNDING:  # the last byte of a period, not the first of the next: that may begin with an outage
            periods, rest = periods - 1, rest + self._total
        piece = bisect_left(self._passed, rest - _ROUNDING) - 1  # not 0 at its end, so its rate is not 0 either
        left = (rest - self._passed[piece]) / (self._mbps[piece] * _BYTES)
        moment = min(self._times[piece] + left, self._end(piece))
        return max(start, (start - place) + periods * self.period + moment)

    def _passed_at(self, place: float) -> float:
        """Bytes from the beginning of the period to a place in it."""
        piece = bisect_right(self._times, place) - 1
        return self._passed[piece] + (place - self._times[piece]) * self._mbps[piece] * _BYTES

    def _end(self, piece: int) -> float:
        return self._times[piece + 1] if piece + 1 < len(self._times) else self.period


def read(path: Path) -> RateTrace:
    """Raises UserError, with the number of the line."""
    times, mbps, period = value_table.read(path, _COLUMN, _UNIT, _mbps)
    try:
        return RateTrace(times, mbps, period)
    except ValueError:  # the rest has been checked line by line
        raise UserError(
            f"{path}: {_COLUMN} is 0 in every row, or as good as that, or beyond all measure: a transfer would never"
            " end; give at least one piece a rate in Mbit/s"
        ) from None


def write(path: Path, trace: RateTrace) -> None:
    value_table.write(path, _COLUMN, trace.pieces, trace.period)


@functools.cache
def load(path: str) -> RateTrace:
    """Read once in a process. The template loads what the experiment names: all devices share it from their fork on."""
    return read(Path(path))


def _mbps(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        raise value_table.BadValue("it must be a number of Mbit/s") from None
    if 0 <= rate <= _MOST:
        return rate
    if not math.isfinite(rate):
        raise value_table.BadValue("it must be finite")
    if rate < 0:
        raise value_table.BadValue("it must not be negative: an outage is 0")
    raise value_table.BadValue(f"it must be at most {_MOST:,.0f} Mbit/s: if it is in bit/s, divide by 1,000,000")
