"""How busy the aggregator is: it reports its own load in the trace about once per host second."""

from __future__ import annotations

from collections.abc import Callable

from testbed.history.trace import Load
from testbed.host.kernel import Usage

_SPAN_SECONDS = 1.0


class LoadMeter:
    """Adds up the seconds of waiting and of serving between two reports. Times are host seconds of one clock."""

    def __init__(self, now: float, usage: Callable[[], Usage | None], pressure: Callable[[], float | None]) -> None:
        self._read_usage, self._read_pressure = usage, pressure
        self._idle = self._service = self._longest = 0.0
        self._served = 0
        self._begin(now)

    def waited(self, seconds: float) -> None:
        """Add seconds without anything to do."""
        self._idle += seconds

    def served(self, seconds: float, updates: int = 1) -> None:
        """Add the seconds from handling an update, or (``updates=0``) a wake, to the last answer sent."""
        self._served += updates
        self._service += seconds
        if seconds > self._longest:
            self._longest = seconds

    def is_due(self, now: float) -> bool:
        return now - self._began >= _SPAN_SECONDS

    def report(self, now: float, t: float) -> Load:
        """Return what has added up since the last report, as an event at emulated time ``t``."""
        usage, pressure, span = self._read_usage(), self._read_pressure(), now - self._began
        was, pressed = self._usage, self._pressure
        load = Load(
            t=t,
            span=span,
            busy=max(0.0, span - self._idle),
            served=self._served,
            service=self._service,
            longest=self._longest,
            waited=None if usage is None or was is None else usage.waited - was.waited,
            pressure=None if pressure is None or pressed is None or span <= 0 else (pressure - pressed) / span,
        )
        self._begin(now)
        return load

    def _begin(self, now: float) -> None:
        self._began = now
        self._idle = self._service = self._longest = 0.0
        self._served = 0
        self._usage, self._pressure = self._read_usage(), self._read_pressure()
