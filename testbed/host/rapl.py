"""The energy that the host measures (RAPL), if it has such a meter and allows reading it.

It is the energy of whole processor packages, with all that runs on them: it says nothing about an emulated device.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

_POWERCAP = Path("/sys/class/powercap")
WHAT = "measured by the host's RAPL, whole packages, everything that ran"


class HostEnergy(msgspec.Struct, frozen=True, kw_only=True):
    """The energy that the host's meter measured during a run. summary.json contains it; the trace does not."""

    joules: dict[str, float]
    """By package."""
    seconds: float
    what: str
    """How it was measured, in words."""


class RaplMeter:
    """Adds up the energy of the packages. Under load the counters wrap within minutes: call ``read`` every minute."""

    def __init__(self, now: float, root: Path = _POWERCAP) -> None:
        """``now``, here and below, is in host seconds."""
        self._ranges = {
            zone: limit
            for zone in sorted(root.glob("intel-rapl:*"))  # also on AMD; intel-rapl-mmio has the same packages again
            if _text(zone / "name").startswith("package")  # not psys, which contains them, and not their parts
            and (limit := _number(zone / "max_energy_range_uj")) is not None
        }
        self._last = self._counters()
        self._microjoules = dict.fromkeys(self._last, 0)
        self._began = self._last_read = now

    def read(self, now: float) -> None:
        """Add what the counters have counted since the last call."""
        for zone, counter in self._counters().items():
            if zone in self._last:  # else it was not readable at the beginning
                self._microjoules[zone] += (counter - self._last[zone]) % (self._ranges[zone] + 1)
                self._last[zone] = counter
        self._last_read = now

    def report(self) -> HostEnergy | None:
        """The joules of each package up to the last ``read``; None if there is no readable meter."""
        if not self._microjoules:
            return None
        joules = {zone.name: round(used / 1e6, 3) for zone, used in self._microjoules.items()}
        return HostEnergy(joules=joules, seconds=round(self._last_read - self._began, 3), what=WHAT)

    def _counters(self) -> dict[Path, int]:
        counters = {zone: _number(zone / "energy_uj") for zone in self._ranges}
        return {zone: counter for zone, counter in counters.items() if counter is not None}


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdecimal() else None


def _text(path: Path) -> str:
    """The text of a file; empty if it cannot be read: since Linux 5.10 only root may read the counters."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
