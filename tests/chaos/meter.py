"""How much memory processes have to themselves, over time, and whether that grows."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import psutil

_START_UP = 0.1
"""Share of what was sampled that is left out: buffers are filled and code is loaded there."""
_LEAST_SAMPLES = 5
_LEAST_SECONDS = 60.0
"""Of a device's life: in a shorter one, all is start-up."""


@dataclass(frozen=True, kw_only=True)
class Growth:
    slope: float
    """Bytes per unit."""
    total: float
    """Bytes, by the slope, over what was looked at."""
    first: float
    last: float
    """Bytes that there were, at its ends."""


def growth(places: list[float], amounts: list[float], left_out: float = _START_UP) -> Growth | None:
    """A straight line through the samples but for the first, by least squares; None if there are too few."""
    if not places:
        return None
    since = places[0] + left_out * (places[-1] - places[0])
    x, y = np.array([(place, amount) for place, amount in zip(places, amounts, strict=True) if place >= since]).T
    if len(x) < _LEAST_SAMPLES or x[-1] <= x[0]:
        return None
    slope = float(np.polyfit(x - x[0], y, 1)[0])
    return Growth(slope=slope, total=slope * float(x[-1] - x[0]), first=float(y[0]), last=float(y[-1]))


@dataclass
class Meter:
    """Samples of the aggregator by updates, of devices (by process: a new life begins anew) by host seconds."""

    updates: list[float] = field(default_factory=list)
    aggregator: list[float] = field(default_factory=list)
    devices: dict[int, tuple[list[float], list[float]]] = field(default_factory=lambda: defaultdict(lambda: ([], [])))
    most: float = 0.0
    """Bytes of the largest device."""

    def look_at_aggregator(self, process: psutil.Process, updates: int) -> None:
        amount = _own(process)
        if amount is not None:
            self.updates.append(float(updates))
            self.aggregator.append(amount)

    def look_at_device(self, process: psutil.Process, now: float) -> None:
        amount = _own(process)
        if amount is not None:
            moments, amounts = self.devices[process.pid]
            moments.append(now)
            amounts.append(amount)
            self.most = max(self.most, amount)

    def of_aggregator(self, left_out: float = _START_UP) -> Growth | None:
        return growth(self.updates, self.aggregator, left_out)

    def of_devices(self) -> list[Growth]:
        """Of each life that was long enough; per host second."""
        long = [samples for samples in self.devices.values() if samples[0][-1] - samples[0][0] >= _LEAST_SECONDS]
        return [each for samples in long if (each := growth(*samples)) is not None]


def _own(process: psutil.Process) -> float | None:
    """Bytes that belong to nobody else (USS): pages that are shared with the template are none of a leak."""
    try:
        return float(process.memory_full_info().uss)
    except psutil.Error:
        return None  # dead by now
