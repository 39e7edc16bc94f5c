"""Kills and rejoins of the script, recorded in the trace when they have happened (ADR 12)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from testbed.history import trace
from testbed.profile.fleet import DeviceSpec

_ROUNDING = 1e-6
"""Seconds. A device rejoins at its moment by the same clock, but two processes may round differently."""


class ScriptedDeaths:
    """Records the events of the script that a dead device cannot report itself.

    The strategy and the engine know nothing of the script. They notice a scripted death like any other one.
    """

    KEPT = ("_pending", "_dead")
    """What a checkpoint keeps."""

    def __init__(self, devices: Iterable[DeviceSpec], record: Callable[[trace.Event], None]) -> None:
        self._pending = {
            device.name: events
            for device in devices
            if (events := [event for event in device.script if event.do in ("kill", "rejoin")])
        }
        self._dead: set[str] = set()
        """Devices that were killed and have not rejoined."""
        self._record = record

    def has_killed(self, device: str, now: float) -> bool:
        """Whether the device is dead by the script. Then the aggregator may notice it only by its silence."""
        return device in self._dead or self._is_due(device, "kill", now)

    def record_kills(self, now: float, is_dead: Callable[[str], bool]) -> None:
        """Record each scripted kill that is due and has happened."""
        for device in self._pending:
            if self._is_due(device, "kill", now) and is_dead(device):
                self._record_next(device, None)

    def record_rejoin(self, device: str, now: float) -> None:
        """Record that a device has said hello during a run. It must have died before, by the script or by itself."""
        if self._is_due(device, "kill", now):
            self._record_next(device, None)
        if self._is_due(device, "rejoin", now):
            self._record_next(device, now)

    def _is_due(self, device: str, do: str, now: float) -> bool:
        events = self._pending.get(device, [])
        return bool(events) and events[0].do == do and events[0].at <= now + _ROUNDING

    def _record_next(self, device: str, moment: float | None) -> None:
        """Record the next event of a device. None stands for its scheduled moment: a kill takes effect then, even if
        it is noticed later.
        """
        event = self._pending[device].pop(0)
        (self._dead.add if event.do == "kill" else self._dead.discard)(device)
        self._record(trace.Scripted(t=event.at if moment is None else moment, device=device, do=event.do))
