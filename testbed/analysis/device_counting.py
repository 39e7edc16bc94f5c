"""Counting of what devices report: transfers, computing, and discarded work."""

from __future__ import annotations

from testbed.analysis.device_totals import DeviceTotals
from testbed.analysis.run_totals import Totals
from testbed.history import trace
from testbed.history.event_pass import Handlers


class DeviceCounter:
    """A checker that adds the reports of devices to the totals."""

    def __init__(self, total: Totals) -> None:
        self._total = total

    def handlers(self) -> Handlers:
        return {
            trace.Downloaded: self._downloaded,
            trace.Uploaded: self._uploaded,
            trace.Trained: self._trained,
            trace.Abandoned: self._abandoned,
            trace.Poisoned: self._poisoned,
        }

    def _downloaded(self, event: trace.Downloaded) -> None:
        device = self._total.devices[event.device]
        device.drops += event.dropped
        device.bytes_down += event.bytes
        self._note_transfer(event.sent + event.obtained, event.bytes)

    def _uploaded(self, event: trace.Uploaded) -> None:
        device = self._total.devices[event.device]
        device.drops += event.dropped
        device.bytes_up += event.bytes
        self._note_transfer(event.sent + event.obtained, event.bytes)

    def _note_transfer(self, end: float, size: int) -> None:
        self._total.transfers.add(end, size)

    def _trained(self, event: trace.Trained) -> None:
        device = self._computed(event)
        device.finish(event.ticket, event.obtained)
        if event.asked > 0:
            device.asked_s += event.asked
            device.obtained_s += event.obtained

    def _abandoned(self, event: trace.Abandoned) -> None:
        self._computed(event).abandon(event.ticket, event.seconds)

    def _poisoned(self, event: trace.Poisoned) -> None:
        self._total.devices[event.device].poisoned += 1

    def _computed(self, event: trace.ComputeEvent) -> DeviceTotals:
        device = self._total.devices[event.device]
        device.missed += len(event.misses)
        if event.use is not None:
            device.host_cpu_s += event.use.cpu
            device.host_waited_s += event.use.waited
        return device
