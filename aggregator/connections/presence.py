"""Presence: which devices have been silent for too long, and whether a silent process is computing."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.host.kernel import Usage, UsageMeter

PROBE_SECONDS = 0.5
"""Host seconds between the two looks at a silent process."""
_LEAST_SHARE = 0.5
"""Share of that time for which a computing process runs or waits for its core."""


class PresenceTracker:
    """Keeps the moment of the last message of each device, in emulated seconds."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._last: dict[str, float] = {}

    def note_message(self, device: str, now: float) -> None:
        self._last[device] = now

    def recheck_in(self, device: str, now: float, seconds: float) -> None:
        """Report a silent device once more after ``seconds``, unless it sends something first."""
        self._last[device] = now - self._timeout + seconds

    def silent(self, now: float) -> Iterator[str]:
        """Yield the devices that have been silent for longer than the timeout, each once."""
        for device in [name for name, last in self._last.items() if now - last > self._timeout]:
            del self._last[device]
            yield device


class LivenessProbe:
    """Finds out whether a silent process is computing, by looking at its CPU time twice.

    In a long step, a process always runs or waits for its core, however crowded the core is. A process that is cut off
    or blocked is alive as well, but sleeps.
    """

    def __init__(self) -> None:
        self._first: dict[str, tuple[float, Usage]] = {}
        """Device → host moment and CPU time of the first look."""

    def forget(self, device: str) -> None:
        """Drop the first look at a device: it has sent something."""
        self._first.pop(device, None)

    def computes(self, device: str, pid: int, now: float) -> bool | None:
        """Return whether a process is computing. ``now`` is in host seconds.

        Return None at the first look. Return True where the kernel does not report CPU time.
        """
        meter = UsageMeter(pid)
        usage = meter()
        meter.close()
        if usage is None:
            return True
        if device not in self._first:
            self._first[device] = now, usage
            return None
        since, before = self._first.pop(device)
        return usage.cpu + usage.waited - before.cpu - before.waited > _LEAST_SHARE * (now - since)
