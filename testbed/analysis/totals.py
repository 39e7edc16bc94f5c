"""Adds up a trace in one pass over its events."""

from __future__ import annotations

from collections.abc import Iterable

from testbed.analysis.device_counting import DeviceCounter
from testbed.analysis.device_totals import DeviceTotals
from testbed.analysis.run_totals import Totals
from testbed.analysis.ticket_counting import TicketCounter
from testbed.analysis.timeline import Timeline
from testbed.history import trace
from testbed.history.event_pass import Checker, Handlers, pass_events
from testbed.history.events.run_events import PROCESS_ENDED, UNREACHABLE
from testbed.history.trace import Event

__all__ = ["DeviceTotals", "Totals", "TotalsCounter", "totals"]


def totals(events: Iterable[Event]) -> Totals:
    """The totals of a trace. Raises KeyError or ValueError if its events contradict each other."""
    counter = TotalsCounter()
    pass_events(events, *counter.checkers)
    return counter.close()


class TotalsCounter:
    """Adds up a trace: pass its events to ``checkers``, then call ``close``."""

    def __init__(self) -> None:
        self.total = Totals()
        self.timeline = Timeline(self.total.energy.spend)
        self.checkers: tuple[Checker, ...] = (
            _RunCounter(self.total),  # first: it adds the devices that the others count
            self.timeline,
            TicketCounter(self.total),
            DeviceCounter(self.total),
        )

    def close(self) -> Totals:
        """Return the totals, after all events have passed."""
        total = self.total
        if total.stopped is not None:
            total.seconds = total.stopped.t
        total.made.close()
        self.timeline.end(total.seconds)
        total.energy.end(total.seconds)
        return total


class _RunCounter:
    """Counts what concerns the run as a whole: its length, its devices, scores, scripted events and refusals."""

    def __init__(self, total: Totals) -> None:
        self._total = total

    def handlers(self) -> Handlers:
        return dict.fromkeys(trace.KINDS.values(), self._advance) | {
            trace.Header: self._header,
            trace.Joined: self._joined,
            trace.Left: self._left,
            trace.OutOfRange: self._out_of_range,
            trace.Planned: self._planned,
            trace.Refusal: self._refused,
            trace.Resumed: self._resumed,
            trace.Scored: self._total.scores.append,  # a score may come after the end
            trace.Scripted: self._scripted,
            trace.Stopped: self._stopped,
        }

    def _advance(self, event: Event) -> None:
        total = self._total
        if event.t > total.seconds:
            total.seconds = event.t

    def _header(self, event: trace.Header) -> None:
        self._advance(event)
        self._total.header = event

    def _stopped(self, event: trace.Stopped) -> None:
        self._total.stopped = event

    def _out_of_range(self, event: trace.OutOfRange) -> None:
        self._advance(event)
        self._total.out_of_range.append(event)

    def _planned(self, event: trace.Planned) -> None:
        self._advance(event)
        self._total.plan = event

    def _joined(self, event: trace.Joined) -> None:
        self._advance(event)
        total = self._total
        total.energy.join(event.device, event.watts, event.t)
        device = total.devices.get(event.device)
        if device is None:
            device = total.devices[event.device] = DeviceTotals(energy=total.energy.devices[event.device])
        elif device.pid != event.pid and event.device not in total.rejoining:
            total.restarts += 1  # a device that was only silent keeps its process
        total.rejoining.discard(event.device)
        device.core = event.cores[0] if len(event.cores) == 1 else None
        device.pid, device.samples, device.compress_updates = event.pid, event.samples, event.compress_updates

    def _left(self, event: trace.Left) -> None:
        self._advance(event)
        if event.reason in (PROCESS_ENDED, UNREACHABLE):
            self._total.rejoining.discard(event.device)

    def _resumed(self, event: trace.Resumed) -> None:
        self._advance(event)
        self._total.resumed += 1
        self._total.dilations.append((event.t, event.dilation))
        self._total.rejoining.update(self._total.devices)

    def _scripted(self, event: trace.Scripted) -> None:
        self._advance(event)
        self._total.scripted += 1
        if event.do == "rejoin":
            self._total.rejoining.add(event.device)

    def _refused(self, event: trace.Refusal) -> None:
        self._advance(event)
        self._total.refused += event.count
        self._total.refusals[event.reason] += event.count
