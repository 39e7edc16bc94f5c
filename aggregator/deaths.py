"""Kills and rejoins of the script, told to the trace when they have happened."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from testbed import trace
from testbed.fleet import DeviceSpec
from testbed.profile import ScriptedEvent


class Deaths:
    """What devices do not tell themselves: that they are dead, or live again.

    The rest of the aggregator knows nothing of the script. It learns of a death as it would of any other.
    """

    KEPT = ("_left",)
    """What a checkpoint keeps of it."""

    def __init__(self, devices: Iterable[DeviceSpec], record: Callable[[trace.Event], None]) -> None:
        self._left = {
            device.name: events
            for device in devices
            if (events := [event for event in device.script if event.do in ("kill", "rejoin")])
        }
        self._record = record

    def look(self, now: float, is_dead: Callable[[str], bool]) -> None:
        """Whether somebody has been killed by now who was to be."""
        for device, events in self._left.items():
            if events and events[0].do == "kill" and events[0].at <= now and is_dead(device):
                self._tell(events.pop(0), device, None)

    def rejoined(self, device: str, now: float) -> None:
        """A device has said hello in the middle of a run: it must have died before."""
        events = self._left.get(device, [])
        if events and events[0].do == "kill" and events[0].at <= now:
            self._tell(events.pop(0), device, None)
        if events and events[0].do == "rejoin":
            self._tell(events.pop(0), device, now)

    def _tell(self, event: ScriptedEvent, device: str, moment: float | None) -> None:
        """A killed device was silent from the moment on at which it was to be killed, whenever that showed."""
        self._record(trace.Scripted(t=event.at if moment is None else moment, device=device, do=event.do))
