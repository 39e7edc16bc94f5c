"""Incidents of the devices of a run with their spans: suspensions as measured, and scripted events."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from testbed.history.trace import Scripted
from testbed.trace_tools.trace_summary import RunSummary

KINDS = ("suspended", "dead", "rate", "speed", "drop", "poison")
_NAMED = 4
"""Devices that are named in a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentSpan:
    """An incident of a device from ``begin`` to ``end``; ``value`` is that of the script."""

    kind: str
    device: str
    begin: float
    end: float
    value: float | None = None


def spans(run: RunSummary) -> Iterator[IncidentSpan]:
    """The incidents of a run; its summary must have been made with ``times=True``."""
    for name, device in run.devices.items():
        for ended, seconds in zip(device.back, device.away, strict=True):
            yield IncidentSpan(kind="suspended", device=name, begin=ended - seconds, end=ended)
    own: defaultdict[str, list[Scripted]] = defaultdict(list)
    for event in run.scripted:
        own[event.device].append(event)
    for events in own.values():
        yield from _scripted(sorted(events, key=lambda event: event.t), run.seconds)


def _scripted(events: Sequence[Scripted], over: float) -> Iterator[IncidentSpan]:
    """The scripted incidents of one device, except suspensions, which are known as measured."""
    for i, event in enumerate(events):
        until = "rejoin" if event.do == "kill" else event.do
        end = min((other.t for other in events[i + 1 :] if other.do == until), default=over)
        if event.do == "kill":
            yield IncidentSpan(kind="dead", device=event.device, begin=event.t, end=end)
        elif event.do in KINDS:
            lasting = math.inf if event.seconds is None else event.seconds
            end = min(end, over, event.t + lasting)
            yield IncidentSpan(kind=event.do, device=event.device, begin=event.t, end=end, value=event.value)


def lines(events: Sequence[Scripted]) -> Iterator[str]:
    """The scripted events as they took effect; equal ones at the same moment share a line."""
    together: dict[tuple[float, str], list[str]] = {}
    for event in sorted(events, key=lambda event: event.t):
        value = "" if event.value is None else f" {event.value:g}"
        how = "" if event.how is None else f" {event.how}"
        lasting = "" if event.seconds is None else f" for {event.seconds:g} s"
        together.setdefault((round(event.t, 2), f"{event.do}{how}{value}{lasting}"), []).append(event.device)
    for (moment, what), devices in together.items():
        more = f" and {len(devices) - _NAMED} more" if len(devices) > _NAMED else ""
        yield f"at {moment:g} s: {what}: {', '.join(devices[:_NAMED])}{more}"
