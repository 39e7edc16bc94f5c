"""The recorded rate of a link: piecewise constant over a period, which repeats.

The file format is CSV (or ``.csv.gz``) with the header ``t_s,mbps``: from each time on, that rate (10⁶ bit/s).
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
from testbed.common.parameters import MOST_MBIT
from testbed.traces import value_table

_COLUMN, _UNIT = "mbps", "seconds, Mbit/s"
_BYTES = 1e6 / 8
"""Bytes per second at 1 Mbit/s."""
_ROUNDING = 1e-3
"""Part of a byte that is ignored: else a transfer that ends with a piece might wait for the end of an outage."""


class RateTrace:
    """A rate over time. Moments may be after the period, which repeats."""

    def __init__(self, times: Iterable[float], mbps: Iterable[float], period: float) -> None:
        """``times``: when each rate begins; the first is 0. Raises ValueError."""
        # arrays, not lists: without reference counts inside, their memory stays shared after a fork
        self._times, self._mbps, self.period = array("d", times), array("d", mbps), float(period)
        value_table.check(self._times, len(self._mbps), self.period)
        if not all(0 <= rate <= MOST_MBIT for rate in self._mbps):
            raise ValueError(f"a rate must be at least 0 and at most {MOST_MBIT:,.0f} Mbit/s")
        ends = [*self._times[1:], self.period]
        lengths = (end - begin for begin, end in zip(self._times, ends, strict=True))
        moved = (length * rate * _BYTES for length, rate in zip(lengths, self._mbps, strict=True))
        self._passed = array("d", accumulate(moved, initial=0.0))
        """Bytes transferred from the beginning of the period to that of each piece, and to its end."""
        self._total = self._passed[-1]
        if not 1.0 <= self._total < math.inf:
            raise ValueError("the bytes of a period must be at least one and finite")

    @property
    def mean(self) -> float:
        """The mean rate in bit/s."""
        return self._total * 8 / self.period

    @property
    def pieces(self) -> Iterator[tuple[float, float]]:
        """The beginning of each piece, and its rate in Mbit/s."""
        return zip(self._times, self._mbps, strict=True)

    def bytes_between(self, start: float, end: float) -> float:
        """Return the bytes that can be transferred from ``start`` to ``end``."""
        first, before = divmod(start, self.period)
        last, after = divmod(end, self.period)
        return (last - first) * self._total + self._passed_at(after) - self._passed_at(before)

    def when(self, start: float, size: float) -> float:
        """Return the moment at which a transfer of ``size`` bytes that begins at ``start`` ends."""
        if size <= _ROUNDING:
            return start
        place = start % self.period
        periods, rest = divmod(self._passed_at(place) + size, self._total)
        if rest <= _ROUNDING:  # it ends with the period: the next may begin with an outage
            periods, rest = periods - 1, rest + self._total
        piece = bisect_left(self._passed, rest - _ROUNDING) - 1  # bytes pass in this piece, so its rate is not 0
        left = (rest - self._passed[piece]) / (self._mbps[piece] * _BYTES)
        moment = min(self._times[piece] + left, self._end(piece))
        return max(start, (start - place) + periods * self.period + moment)

    def _passed_at(self, place: float) -> float:
        """Return the bytes from the beginning of the period to a position in it."""
        piece = bisect_right(self._times, place) - 1
        return self._passed[piece] + (place - self._times[piece]) * self._mbps[piece] * _BYTES

    def _end(self, piece: int) -> float:
        return self._times[piece + 1] if piece + 1 < len(self._times) else self.period


def read(path: Path) -> RateTrace:
    """Read a file. Raises UserError with the number of the line."""
    times, mbps, period = value_table.read(path, _COLUMN, _UNIT, _mbps)
    try:
        return RateTrace(times, mbps, period)
    except ValueError:  # the rest has been checked line by line
        raise UserError(
            f"{path}: {_COLUMN} is 0 in every row, or too small or too large: a transfer would never end; give at least"
            " one piece a rate in Mbit/s"
        ) from None


def write(path: Path, trace: RateTrace) -> None:
    value_table.write(path, _COLUMN, trace.pieces, trace.period)


@functools.cache
def load(path: str) -> RateTrace:
    """Read a file once in a process. The template loads all traces of an experiment, so that devices share them."""
    return read(Path(path))


def _mbps(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        raise value_table.BadValue("it must be a number of Mbit/s") from None
    if 0 <= rate <= MOST_MBIT:
        return rate
    if not math.isfinite(rate):
        raise value_table.BadValue("it must be finite")
    if rate < 0:
        raise value_table.BadValue("it must not be negative: an outage is 0")
    raise value_table.BadValue(f"it must be at most {MOST_MBIT:,.0f} Mbit/s: if it is in bit/s, divide by 1,000,000")
