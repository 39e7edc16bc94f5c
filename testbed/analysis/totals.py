"""Add up a trace in one pass over its events."""

from __future__ import annotations

from collections.abc import Iterable

from testbed.analysis.device_totals import DeviceTotals
from testbed.analysis.run_totals import Totals, VersionTotals
from testbed.analysis.ticket_counting import count_ticket
from testbed.analysis.timeline import Timeline
from testbed.history import trace
from testbed.history.events.run_events import PROCESS_ENDED, UNREACHABLE
from testbed.history.trace import Event

__all__ = ["DeviceTotals", "Totals", "VersionTotals", "totals"]


def totals(events: Iterable[Event]) -> Totals:
    """The totals of a trace. Raises KeyError or ValueError if its events contradict each other."""
    total, timeline = Totals(), Timeline()
    for event in events:
        if not isinstance(event, (trace.Scored, trace.Stopped)):
            total.seconds = max(total.seconds, event.t)
        if isinstance(event, trace.Joined):
            _join(event, total)
        for span in timeline.take(event):
            total.energy.spend(span)
        count_ticket(event, total)
        _count_run(event, total)
        if isinstance(event, (trace.TransferEvent, trace.ComputeEvent)):
            total.devices[event.device].count(event)
            if isinstance(event, trace.TransferEvent):
                total.moved.append((event.sent + event.obtained, event.bytes))
    if total.stopped is not None:
        total.seconds = total.stopped.t
    for span in timeline.end(total.seconds):
        total.energy.spend(span)
    total.energy.end(total.seconds)
    return total


def _join(event: trace.Joined, total: Totals) -> None:
    total.energy.join(event.device, event.watts, event.t)
    device = total.devices.get(event.device)
    if device is None:
        device = total.devices[event.device] = DeviceTotals(energy=total.energy.devices[event.device])
    elif device.pid != event.pid and event.device not in total.rejoining:
        total.restarts += 1  # a device that was only silent keeps its process
    total.rejoining.discard(event.device)
    device.pid, device.core, device.samples = event.pid, next(iter(event.cores), None), event.samples


def _count_run(event: Event, total: Totals) -> None:
    """Add an event that concerns the run as a whole."""
    match event:
        case trace.Header():
            total.header = event
        case trace.Stopped():
            total.stopped = event
        case trace.Scored():
            total.scores.append(event)
        case trace.Planned():
            total.plan = event
        case trace.Resumed():
            total.resumed += 1
            total.dilations.append((event.t, event.dilation))
            total.rejoining.update(total.devices)
        case trace.Left() if event.reason in (PROCESS_ENDED, UNREACHABLE):
            total.rejoining.discard(event.device)
        case trace.Scripted():
            total.scripted += 1
            if event.do == "rejoin":
                total.rejoining.add(event.device)
        case trace.Refusal():
            total.refused += event.count
            total.refusals[event.reason] += event.count
        case _:
            pass
