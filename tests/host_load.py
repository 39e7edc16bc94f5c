"""How busy other programs keep this host: before a test that judges timing, and during it.

Before the test nothing of it runs, so any busy core and any process that waits for one (PSI) belongs to others. During
the test its own processes compute, too. Their CPU seconds are known as soon as they have ended and were waited for;
what the cores computed besides is the work of others. Time that a hypervisor took away counts as theirs.
"""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

from testbed.host.kernel import pressure_seconds

_STAT = Path("/proc/stat")
_IDLE = slice(3, 5)
_GUEST = slice(8, 10)
"""Columns of /proc/stat: idle and waiting for a disk; guests, which are contained in the columns before."""

MOST_PRESSURE = 0.10
"""The certificate of a run warns above this share, too."""
MOST_WORK = 0.10


@dataclass(frozen=True, slots=True)
class Reading:
    """Seconds since boot, or since this process started. None: this host does not report it."""

    at: float
    pressure: float | None
    busy: float | None
    own: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLoad:
    """What other programs did between two readings."""

    cores: int
    pressure: float | None
    """Share of the time in which a process waited for a core: anybody's process."""
    work: float | None
    """Share of the cores that other programs used."""

    def problem(self, *, own_processes: bool) -> str:
        """Say why timing cannot be judged, or return an empty text. The own processes of a test may cause pressure."""
        if self.work is not None and self.work > MOST_WORK:
            return f"other programs used {self.work:.0%} of {self.cores} cores (at most {MOST_WORK:.0%})"
        if not own_processes and self.pressure is not None and self.pressure > MOST_PRESSURE:
            return f"a process waited for a core {self.pressure:.0%} of the time (at most {MOST_PRESSURE:.0%})"
        return ""


def read() -> Reading:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    own = sum(usage.ru_utime + usage.ru_stime for usage in used)
    return Reading(time.monotonic(), pressure_seconds(), _busy_seconds(), own)


def between(first: Reading, last: Reading) -> HostLoad:
    cores, seconds = len(os.sched_getaffinity(0)), max(last.at - first.at, 1e-3)
    pressure = work = None
    if first.pressure is not None and last.pressure is not None:
        pressure = (last.pressure - first.pressure) / seconds
    if first.busy is not None and last.busy is not None:
        work = max(0.0, last.busy - first.busy - (last.own - first.own)) / (seconds * cores)
    return HostLoad(cores=cores, pressure=pressure, work=work)


def watch(seconds: float) -> HostLoad:
    """Look at the host for some seconds, in which this process only waits."""
    first = read()
    time.sleep(seconds)
    return between(first, read())


def _busy_seconds() -> float | None:
    """Seconds that the cores of this process were not idle."""
    ours = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    try:
        lines = [line.split() for line in _STAT.read_text(encoding="ascii").splitlines()]
    except OSError:
        return None
    ticks = [[int(number) for number in line[1:]] for line in lines if line[0] in ours]
    if not ticks:
        return None
    return sum(sum(row) - sum(row[_IDLE]) - sum(row[_GUEST]) for row in ticks) / os.sysconf("SC_CLK_TCK")
