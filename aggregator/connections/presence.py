"""Presence: which devices have been silent for too long, and whether a silent process is computing.

Theory of operation (ADR 17, ADR 25)
    A silent process is looked at twice, half a second apart. It stays if, for most of that time, it ran or waited for
    its core. The kernel counts a wait only when the wait ends. With 500 processes on one core a wait lasts longer than
    the half second, so that both counters of a process that only waits stand still, as those of a blocked one do. But
    a waiting process is runnable, at every look; a process that is cut off or blocked sleeps. One look may find a
    sleeping process awake by chance, hence two: runnable at both is a full host, runnable only at the second is looked
    at once more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from testbed.host.kernel import Usage, UsageMeter, is_runnable

PROBE_SECONDS = 0.5
"""Host seconds between the two looks at a silent process."""
_LEAST_SHARE = 0.5
"""Share of that time for which a computing process runs or waits for its core."""


class PresenceTracker:
    """Keeps the moment of the last message of each device, in emulated seconds.

    A message moves its device's moment forward, so a bound below all of them is known without looking at each device.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._last: dict[str, float] = {}
        self._bound = math.inf
        """No device's moment is before this one."""

    def note_message(self, device: str, now: float) -> None:
        self._last[device] = now
        self._bound = min(self._bound, now)

    def note_sign_of_life(self, device: str, moment: float) -> None:
        """Note that a device was alive at ``moment``, which may be before its last message."""
        if self._last.get(device, math.inf) < moment:
            self.note_message(device, moment)

    def recheck_in(self, device: str, now: float, seconds: float) -> None:
        """Report a silent device once more after ``seconds``, unless it sends something first."""
        self.note_message(device, now - self._timeout + seconds)

    @property
    def next_timeout(self) -> float:
        """No device is silent for too long before this moment; infinity if none is watched."""
        return self._bound + self._timeout

    def is_any_silent(self, now: float) -> bool:
        if now - self._bound <= self._timeout:
            return False
        self._bound = min(self._last.values(), default=math.inf)
        return now - self._bound > self._timeout

    def silent(self, now: float) -> Iterator[str]:
        """Yield the devices that have been silent for longer than the timeout, each once."""
        for device in [name for name, last in self._last.items() if now - last > self._timeout]:
            del self._last[device]
            yield device


@dataclass(frozen=True, slots=True)
class Look:
    """A look at a silent process. ``moment`` is in host seconds."""

    moment: float
    usage: Usage
    runnable: bool

    def shows_computing(self, before: Look) -> bool | None:
        """Return whether the process computes or waits for its core; None: look once more."""
        counted = self.usage.cpu + self.usage.waited - before.usage.cpu - before.usage.waited
        if counted > _LEAST_SHARE * (self.moment - before.moment):
            return True
        if self.runnable:
            return True if before.runnable else None
        return False


class LivenessProbe:
    """Finds out whether a silent process is computing, by looking at it twice.

    In a long step, a process always runs or waits for its core, however crowded the core is. A process that is cut off
    or blocked is alive as well, but sleeps.
    """

    def __init__(self) -> None:
        self._last: dict[str, Look] = {}

    def forget(self, device: str) -> None:
        """Drop the last look at a device: it has sent something."""
        self._last.pop(device, None)

    def computes(self, device: str, pid: int, now: float) -> bool | None:
        """Return whether a process is computing. ``now`` is in host seconds.

        Return None if the process must be looked at once more. Return True where the kernel does not report CPU time.
        """
        meter = UsageMeter(pid)
        usage = meter()
        meter.close()
        if usage is None:
            return True
        look, before = Look(now, usage, is_runnable(pid)), self._last.pop(device, None)
        computes = None if before is None else look.shows_computing(before)
        if computes is None:
            self._last[device] = look
        return computes
