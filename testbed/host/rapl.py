"""The joules that the host itself measured (RAPL), where it has such a meter and lets us read it.

They are those of whole processor packages, with everything that ran on them: they say nothing about an emulated device.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

_POWERCAP = Path("/sys/class/powercap")
WHAT = "measured by the host's RAPL, whole packages, everything that ran"


class RaplMeter:
    """Adds up what the packages use. Under load their counters wrap within minutes: look once a minute at least."""

    def __init__(self, now: float, root: Path = _POWERCAP) -> None:
        """``now``, here and below, in host seconds."""
        self._ranges = {
            zone: limit
            for zone in sorted(root.glob("intel-rapl:*"))  # AMD's, too; intel-rapl-mmio has the same packages again
            if _text(zone / "name").startswith("package")  # not psys, in which they are; nor what is below them
            and (limit := _number(zone / "max_energy_range_uj")) is not None
        }
        self._last = self._counters()
        self._microjoules = dict.fromkeys(self._last, 0)
        self._began = self._looked = now

    def look(self, now: float) -> None:
        for zone, counter in self._counters().items():
            if zone in self._last:  # else it could not be read when all began
                self._microjoules[zone] += (counter - self._last[zone]) % (self._ranges[zone] + 1)
                self._last[zone] = counter
        self._looked = now

    def report(self) -> dict[str, Any] | None:
        """The joules of each package until the last look; None where there is nothing to read."""
        if not self._microjoules:
            return None
        joules = {zone.name: round(used / 1e6, 3) for zone, used in self._microjoules.items()}
        return {"joules": joules, "seconds": round(self._looked - self._began, 3), "what": WHAT}

    def _counters(self) -> dict[Path, int]:
        counters = {zone: _number(zone / "energy_uj") for zone in self._ranges}
        return {zone: counter for zone, counter in counters.items() if counter is not None}


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdecimal() else None


def _text(path: Path) -> str:
    """Empty where it cannot be read: since Linux 5.10 the counters are for root only."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
