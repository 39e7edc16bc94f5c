"""Clocks are passed as arguments: a wall clock shared by all processes of a run, and one that is moved by hand."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol


class RunClock(Protocol):
    """Shows the emulated time of a run."""

    @property
    def origin(self) -> float:
        """Time zero on CLOCK_MONOTONIC."""
        ...

    @property
    def dilation(self) -> float:
        """Host seconds per emulated second."""
        ...

    def now(self) -> float: ...
    def host_seconds(self, emulated: float) -> float: ...


@dataclass(frozen=True, slots=True)
class WallClock:
    """CLOCK_MONOTONIC relative to an origin that all processes of the run share.

    ``dilation`` is the number of host seconds per emulated second.
    """

    origin: float
    dilation: float = 1.0

    @classmethod
    def starting_now(cls, dilation: float = 1.0) -> WallClock:
        return cls(time.monotonic(), dilation)

    @classmethod
    def showing(cls, moment: float, dilation: float = 1.0) -> WallClock:
        """Return a clock that shows ``moment`` now, so that a resumed run continues where it was interrupted."""
        return cls(time.monotonic() - moment * dilation, dilation)

    def now(self) -> float:
        """Return the emulated seconds since the origin."""
        return (time.monotonic() - self.origin) / self.dilation

    def host_seconds(self, emulated: float) -> float:
        return emulated * self.dilation

    def sleep_until(self, moment: float) -> None:
        """Sleep until an emulated moment. Return at once if it has passed."""
        left = self.host_seconds(moment - self.now())
        if left > 0:
            time.sleep(left)


@dataclass(slots=True)
class ManualClock:
    """A clock that moves only when it is advanced: for tests, and the virtual clock of a run (``testbed.twin``)."""

    moment: float = 0.0
    origin: float = 0.0
    dilation: float = 1.0

    def now(self) -> float:
        return self.moment

    def host_seconds(self, emulated: float) -> float:
        return emulated * self.dilation

    def advance_to(self, moment: float) -> None:
        if moment < self.moment:
            raise ValueError(f"time cannot go back from {self.moment} to {moment}")
        self.moment = moment
