"""The unique memory of processes over time, and whether it grows."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import psutil

_START_UP = 0.1
"""Share of the samples that is left out at the beginning, where buffers are filled and code is loaded."""
_LEAST_SAMPLES = 5
_LEAST_SECONDS = 60.0
"""A device process that is younger is still starting."""


@dataclass(frozen=True, kw_only=True)
class Growth:
    slope: float
    """Bytes per unit."""
    total: float
    """Bytes, by the slope, over all samples."""
    first: float
    last: float
    """Bytes at the first and at the last sample."""


def growth(places: list[float], amounts: list[float], left_out: float = _START_UP) -> Growth | None:
    """A straight line through the samples, without the first ones, by least squares; None if there are too few."""
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
    """Samples of the aggregator over updates, and of each device process over host seconds."""

    updates: list[float] = field(default_factory=list)
    aggregator: list[float] = field(default_factory=list)
    devices: dict[int, tuple[list[float], list[float]]] = field(default_factory=lambda: defaultdict(lambda: ([], [])))
    most: float = 0.0
    """Bytes of the largest device."""

    def sample_aggregator(self, process: psutil.Process, updates: int) -> None:
        amount = _own(process)
        if amount is not None:
            self.updates.append(float(updates))
            self.aggregator.append(amount)

    def sample_device(self, process: psutil.Process, now: float) -> None:
        amount = _own(process)
        if amount is not None:
            moments, amounts = self.devices[process.pid]
            moments.append(now)
            amounts.append(amount)
            self.most = max(self.most, amount)

    def of_aggregator(self, left_out: float = _START_UP) -> Growth | None:
        return growth(self.updates, self.aggregator, left_out)

    def of_devices(self) -> list[Growth]:
        """The growth of each device process that lived long enough; per host second."""
        long = [samples for samples in self.devices.values() if samples[0][-1] - samples[0][0] >= _LEAST_SECONDS]
        return [each for samples in long if (each := growth(*samples)) is not None]


def _own(process: psutil.Process) -> float | None:
    """Unique bytes (USS): pages that are shared with the template are not a leak."""
    try:
        return float(process.memory_full_info().uss)
    except psutil.Error:
        return None  # dead by now
