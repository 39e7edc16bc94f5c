"""One direction of a device's link: how long a transfer takes, and whether it arrives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from testbed.emulation.faults import TransferFate
from testbed.profile.schema import Direction, Phase
from testbed.profile.speed import ScaledCurve, SpeedCurve, SteppedCurve
from testbed.traces import rate
from testbed.traces.availability import Absence

_LEAST_FACTOR = 0.1
"""N(1, σ) is cut off here: a transfer never takes less than a tenth of bytes ÷ rate, and never negative time."""

_ROUNDING = 1e-9
"""Seconds: a transfer that ends when an absence begins has arrived."""
_NOTHING = 1e-4
"""Bytes, or seconds: less than this is rounding."""
_ENDLESS = 10_000
"""If nothing moves in this many presences in a row, nothing ever will: they all coincide with outages of the link."""

Absences: TypeAlias = Callable[[float], Iterator[Absence]]
"""A moment → the absences of the device in order, from the first one that ends after that moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """A transfer under way; ``due`` is the moment at which its last byte arrives, or would arrive if it is dropped."""

    started: float
    due: float
    asked: float
    bytes: int
    dropped: bool
    absent: float = 0.0
    """The seconds of ``asked`` that fall into absences."""

    @property
    def is_local(self) -> bool:
        """Whether it goes over no link: from a cluster head to itself."""
        return self.bytes == 0


def next_tick(moment: float, tick: float) -> float:
    """Return the moment at which the next interval begins."""
    # (k·tick)/tick may be a little less than k: that would be another attempt in the same interval
    return (math.floor(moment / tick + _ROUNDING) + 1) * tick


def transfer(
    link: Direction,
    size: int,
    fate: TransferFate,
    now: float,
    absences: Absences = lambda since: iter(()),
    rates: Sequence[Phase] = (),
) -> Transfer:
    """Begin to move ``size`` bytes at ``now``. A dropped transfer takes as long as one that arrives.

    Nothing moves during an absence. The end of the transfer is computed now, because an update is sent before it is due
    and carries that moment. ``rates`` scales the rate from certain moments on; the delay does not change.
    """
    seconds, passing, absent = link.delay + abs(fate.delay_noise) * link.jitter, 0.0, 0.0
    if fate.seconds is not None:
        seconds = fate.seconds
    elif link.mbit is not None:
        factor = max(_LEAST_FACTOR, 1.0 + link.spread * fate.rate_noise)
        full_rate = size * 8 / (link.mbit * 1e6) * factor
        if rates:
            passing, absent = _passing(full_rate, now, absences, ScaledCurve(SteppedCurve(), rates))
        else:
            seconds += full_rate
    elif link.trace is not None:
        recorded = _Recorded(rate.load(link.trace), link.trace_offset or 0.0)
        passing, absent = _passing(size, now, absences, ScaledCurve(recorded, rates) if rates else recorded)
        if math.isinf(passing):
            return _transfer(now, passing, absent, size, fate)
    _, more = _through(now + passing, seconds, absences, lambda at, left: at + left, lambda at, end: end - at)
    return _transfer(now, passing + seconds + more, absent + more, size, fate)


def _transfer(now: float, asked: float, absent: float, size: int, fate: TransferFate) -> Transfer:
    return Transfer(started=now, due=now + asked, asked=asked, bytes=size, dropped=fate.dropped, absent=absent)


@dataclass(frozen=True, slots=True)
class _Recorded:
    """The bytes that a link moves whose rate follows a trace."""

    trace: rate.RateTrace
    offset: float

    def work(self, start: float, end: float) -> float:
        return self.trace.bytes_between(start + self.offset, end + self.offset)

    def when(self, start: float, work: float) -> float:
        return max(start, self.trace.when(start + self.offset, work) - self.offset)


def _passing(amount: float, now: float, absences: Absences, curve: SpeedCurve) -> tuple[float, float]:
    """Return the seconds that ``amount`` needs over a link whose rate changes, and those of them in absences."""
    passed, absent = _through(now, amount, absences, curve.when, curve.work)
    return passed - now, absent


def _through(
    moment: float,
    amount: float,
    absences: Absences,
    when: Callable[[float, float], float],
    between: Callable[[float, float], float],
) -> tuple[float, float]:
    """Return when ``amount`` has moved, which it does only while the device is present, and the seconds of absence.

    ``when`` returns the moment at which an amount has moved, ``between`` the amount that moves between two moments.
    """
    absent, idle = 0.0, 0
    for gone, back in absences(moment):
        due = when(moment, amount)
        if due <= gone + _ROUNDING:
            return due, absent
        moved = between(moment, gone) if moment < gone else 0.0
        idle = 0 if moved > _NOTHING else idle + 1
        if idle > _ENDLESS:
            return math.inf, absent
        amount -= moved
        absent += back - max(moment, gone)
        moment = back
    return when(moment, amount), absent
