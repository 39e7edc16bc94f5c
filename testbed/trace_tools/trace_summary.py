"""Summary of a trace by device: one pass that keeps only the measured seconds."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from testbed.history import trace
from testbed.history.trace import Event

PHASES = ("download", "compute", "upload")


class Seconds:
    """Seconds of one phase of a device's jobs: asked, obtained, and the moments at which they ended."""

    __slots__ = ("asked", "ended", "obtained")

    def __init__(self) -> None:
        self.asked, self.obtained, self.ended = array("d"), array("d"), array("d")


class DeviceSummary:
    __slots__ = (
        "away",
        "back",
        "compute",
        "download",
        "drops",
        "jobs",
        "staleness",
        "suspended_s",
        "suspensions",
        "upload",
    )

    def __init__(self) -> None:
        self.jobs = self.drops = self.suspensions = 0
        self.suspended_s = 0.0
        self.download, self.compute, self.upload = Seconds(), Seconds(), Seconds()
        self.staleness = array("q")
        self.back, self.away = array("d"), array("d")
        """When each suspension ended, and its length; for a figure."""


class RunSummary:
    """The summary of a trace; with ``times`` it also keeps the moments, for a figure."""

    def __init__(self, events: Iterable[Event], *, times: bool = False) -> None:
        self.header: trace.Header | None = None
        self.stopped: trace.Stopped | None = None
        self.devices: defaultdict[str, DeviceSummary] = defaultdict(DeviceSummary)
        self.scripted: list[trace.Scripted] = []
        self.events = self.versions = 0
        self.seconds = 0.0
        self._times = times
        handlers: dict[type[Event], Callable[[Any], None]] = {
            trace.Header: self._header,
            trace.Joined: self._joined,
            trace.Dispatched: self._dispatched,
            trace.Downloaded: self._downloaded,
            trace.Trained: self._trained,
            trace.Uploaded: self._uploaded,
            trace.Suspended: self._suspended,
            trace.Arrived: self._arrived,
            trace.Aggregated: self._aggregated,
            trace.Scripted: self.scripted.append,
            trace.Stopped: self._stopped,
        }
        for event in events:
            self.events += 1
            handler = handlers.get(type(event))
            if handler is not None:
                handler(event)

    def _header(self, event: trace.Header) -> None:
        self.header = event

    def _stopped(self, event: trace.Stopped) -> None:
        self.stopped = event
        self.seconds = event.t

    def _joined(self, event: trace.Joined) -> None:
        self.devices[event.device]  # creates the entry of a device that may never get a job

    def _dispatched(self, event: trace.Dispatched) -> None:
        if event.steps and not event.for_cluster:
            self.devices[event.device].jobs += 1
        self.seconds = event.t

    def _downloaded(self, event: trace.Downloaded) -> None:
        device = self.devices[event.device]
        device.drops += event.dropped
        self._note(device.download, event.asked, event.obtained, event.sent + event.obtained)

    def _uploaded(self, event: trace.Uploaded) -> None:
        device = self.devices[event.device]
        device.drops += event.dropped
        self._note(device.upload, event.asked, event.obtained, event.sent + event.obtained)

    def _trained(self, event: trace.Trained) -> None:
        self._note(self.devices[event.device].compute, event.asked, event.obtained, event.t)

    def _note(self, seconds: Seconds, asked: float, obtained: float, ended: float) -> None:
        seconds.asked.append(asked)
        seconds.obtained.append(obtained)
        if self._times:
            seconds.ended.append(ended)

    def _suspended(self, event: trace.Suspended) -> None:
        device = self.devices[event.device]
        device.suspensions += 1
        device.suspended_s += event.obtained
        if self._times:
            device.back.append(event.t)
            device.away.append(event.obtained)

    def _arrived(self, event: trace.Arrived) -> None:
        self.devices[event.device].staleness.append(event.staleness)
        self.seconds = event.t

    def _aggregated(self, event: trace.Aggregated) -> None:
        self.versions = event.version
        self.seconds = event.t
