"""Who is alive: a device that has been silent for too long has left."""

from __future__ import annotations

from collections.abc import Iterator


class Presence:
    """Last sign of life of each device, in host-independent emulated seconds."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._heard: dict[str, float] = {}

    def heard(self, device: str, now: float) -> None:
        self._heard[device] = now

    def silent(self, now: float) -> Iterator[str]:
        """The devices that have left by now; each is told once."""
        for device in [name for name, last in self._heard.items() if now - last > self._timeout]:
            del self._heard[device]
            yield device
