"""Who is alive: a device that has been silent for too long has left, unless it is in the midst of a long step."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.host.kernel import Usage, UsageMeter

LOOK_SECONDS = 0.5
"""Host seconds for which a silent process is looked at."""
_LEAST_SHARE = 0.5


class PresenceTracker:
    """Last sign of life of each device, in host-independent emulated seconds."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._heard: dict[str, float] = {}

    def heard(self, device: str, now: float) -> None:
        self._heard[device] = now

    def recheck_in(self, device: str, now: float, seconds: float) -> None:
        """It is silent, and will be told once more in so many seconds unless it is heard before."""
        self._heard[device] = now - self._timeout + seconds

    def silent(self, now: float) -> Iterator[str]:
        """The devices that have left by now; each is told once."""
        for device in [name for name, last in self._heard.items() if now - last > self._timeout]:
            del self._heard[device]
            yield device


class LivenessProbe:
    """Whether a silent process computes. One that is cut off, or hangs, lives too, but it waits.

    A process in the midst of a step runs, or waits for its core, all the time, however crowded that is.
    """

    def __init__(self) -> None:
        self._first: dict[str, tuple[float, Usage]] = {}
        """What it had used at the first look."""

    def heard(self, device: str) -> None:
        """It is silent no more."""
        self._first.pop(device, None)

    def computes(self, device: str, pid: int, now: float) -> bool | None:
        """``now`` is in host seconds. None: that shows at a second look. Where the kernel does not say, it does."""
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
