"""Kills and rejoins of the script, told to the trace when they have happened."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from testbed.history import trace
from testbed.profile.fleet import DeviceSpec

_ROUNDING = 1e-6
"""Seconds. A device that rejoins waits for its moment, by the same clock; but two processes may round differently."""


class ScriptedDeaths:
    """What devices do not tell themselves: that they are dead, or live again.

    The rest of the aggregator knows nothing of the script. It learns of a death as it would of any other.
    """

    KEPT = ("_left", "_dead")
    """What a checkpoint keeps of it."""

    def __init__(self, devices: Iterable[DeviceSpec], record: Callable[[trace.Event], None]) -> None:
        self._left = {
            device.name: events
            for device in devices
            if (events := [event for event in device.script if event.do in ("kill", "rejoin")])
        }
        self._dead: set[str] = set()
        """Who was killed, and has not rejoined."""
        self._record = record

    def wanted(self, device: str, now: float) -> bool:
        """Whether the script has it dead: then only its silence may tell."""
        return device in self._dead or self._is_due(device, "kill", now)

    def look(self, now: float, is_dead: Callable[[str], bool]) -> None:
        """Whether somebody has been killed by now who was to be."""
        for device in self._left:
            if self._is_due(device, "kill", now) and is_dead(device):
                self._tell(device, None)

    def rejoined(self, device: str, now: float) -> None:
        """A device has said hello in the middle of a run: it must have died before, by the script or by itself."""
        if self._is_due(device, "kill", now):
            self._tell(device, None)
        if self._is_due(device, "rejoin", now):
            self._tell(device, now)

    def _is_due(self, device: str, do: str, now: float) -> bool:
        events = self._left.get(device, [])
        return bool(events) and events[0].do == do and events[0].at <= now + _ROUNDING

    def _tell(self, device: str, moment: float | None) -> None:
        """A killed device was silent from the moment on at which it was to be killed, whenever that showed."""
        event = self._left[device].pop(0)
        (self._dead.add if event.do == "kill" else self._dead.discard)(device)
        self._record(trace.Scripted(t=event.at if moment is None else moment, device=device, do=event.do))
