"""Scripted events: actions that a profile schedules for devices, identical under every strategy.

Each device carries out its events in its own process (``devices.device``); the launcher kills and restarts processes.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TypeAlias

from testbed.profile.schema import DeviceGroup, Experiment, Phase, ScriptedEvent
from testbed.traces.availability import Absence

ALL_DEVICES = "*"
"""Stands for all devices in the ``device`` key of an event."""
CHANGES = ("rate", "speed", "drop", "poison")
"""Events that change a value for some time. A change replaces the previous one of its kind; afterwards, the value of
the profile applies again."""

Member: TypeAlias = tuple[str, DeviceGroup]
"""Name of a device, and its group."""
Events: TypeAlias = Sequence[ScriptedEvent]
"""The events of one device, in order."""


# ---- targets


def events_of(experiment: Experiment, name: str, group: DeviceGroup) -> tuple[ScriptedEvent, ...]:
    """Return the events of one device, in order."""
    own = [replace(event, device=name) for event in experiment.events if is_for(event, name, group)]
    if experiment.replay.trace is not None:  # the recording contains the effects of all other events
        own = [event for event in own if event.do in ("kill", "rejoin")]
    return tuple(sorted(own, key=lambda event: event.at))


def is_for(event: ScriptedEvent, name: str, group: DeviceGroup) -> bool:
    """Return whether the event is for this device of this group."""
    return event.device in (ALL_DEVICES, name, group.name)


# ---- events of one device


def phases(events: Events, do: str) -> tuple[Phase, ...]:
    """Return the changes of one kind as phases, in multiples of the value in the profile."""
    found: list[Phase] = []
    for event, end in _lasting(events, do):
        assert event.value is not None
        found.append(Phase(at=event.at, speed=event.value))
        if end < math.inf:
            found.append(Phase(at=end, speed=1.0))
    return tuple(
        phase for phase, following in zip_longest(found, found[1:]) if following is None or phase.at < following.at
    )


def drop_at(events: Events, moment: float) -> float | None:
    """Return the drop probability of a transfer that begins at ``moment``; None: that of the profile."""
    event = change_at(events, "drop", moment)
    return None if event is None else event.value


def change_at(events: Events, do: str, moment: float) -> ScriptedEvent | None:
    """Return the change of a kind that is in force at ``moment``."""
    return next((event for event, end in _lasting(events, do) if event.at <= moment < end), None)


def suspensions(events: Events, since: float) -> Iterator[Absence]:
    """Yield the suspensions that end after ``since``; those that overlap are merged. A kill ends a suspension."""
    return (suspension for suspension in merge_absences(_each_suspension(events), iter(())) if suspension[1] > since)


def _each_suspension(events: Events) -> Iterator[Absence]:
    for event in events:
        if event.do == "suspend" and event.seconds is not None:
            killed = (other.at for other in events if other.do == "kill" and other.at >= event.at)
            yield event.at, min(event.at + event.seconds, *killed, math.inf)


def merge_absences(one: Iterator[Absence], other: Iterator[Absence]) -> Iterator[Absence]:
    """Yield the absences of two ordered series, in order; those that overlap are merged. A series may be infinite."""
    began, ended = math.inf, -math.inf
    for begin, end in heapq.merge(one, other):
        if begin > ended:
            if ended > began:
                yield began, ended
            began = begin
        ended = max(ended, end)
    if ended > began:
        yield began, ended


def _lasting(events: Events, do: str) -> Iterator[tuple[ScriptedEvent, float]]:
    """Yield each change of a kind and its end: after its seconds, or when the next of its kind begins."""
    own = [event for event in events if event.do == do]
    for event, following in zip_longest(own, own[1:]):
        end = math.inf if event.seconds is None else event.at + event.seconds
        yield event, end if following is None else min(end, following.at)


def _rest(event: ScriptedEvent, since: float) -> ScriptedEvent:
    """Return the part of a change that is left at ``since``."""
    return replace(event, at=since, seconds=None if event.seconds is None else event.at + event.seconds - since)


class Script:
    """The events that a device process still has to record. The process starts at ``begins``."""

    def __init__(self, events: Events = (), begins: float = 0.0) -> None:
        killed = max((event.at for event in events if event.do == "kill" and event.at < begins), default=-math.inf)
        in_force = {id(event) for do in CHANGES for event, end in _lasting(events, do) if end > begins}
        self._left = [
            # a change that began while the device was dead continues when it rejoins
            event if event.at >= begins else _rest(event, begins)
            for event in events
            if event.do != "rejoin" and (event.at >= begins or (event.at > killed and id(event) in in_force))
        ]
        self._left.sort(key=lambda event: event.at)
        self.killed_at = min((event.at for event in self._left if event.do == "kill"), default=math.inf)

    @property
    def next(self) -> float:
        """The moment of the next event."""
        return self._left[0].at if self._left else math.inf

    def pop(self) -> ScriptedEvent:
        """Remove and return the next event."""
        return self._left.pop(0)


# ---- actions of the launcher


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledAction:
    """A kill or a fork that the launcher does at ``moment``, for an event that is scheduled ``at`` another moment."""

    moment: float
    at: float
    device: str
    do: str


def scheduled_actions(scripts: Iterable[Events], *, grace: float, boot: float) -> list[ScheduledAction]:
    """Return the kills and rejoins of a fleet, in the order in which the launcher does them.

    A killed device is silent at once; its process is ended ``grace`` seconds later, after it has sent its remaining
    events. A device that rejoins is forked ``boot`` seconds before, but never before its old process has ended.
    """
    found = []
    for events in scripts:
        moment = 0.0
        for event in events:
            if event.do in ("kill", "rejoin"):
                moment = max(moment, event.at + grace if event.do == "kill" else event.at - boot)
                found.append(ScheduledAction(moment=moment, at=event.at, device=event.device, do=event.do))
    return sorted(found, key=lambda action: action.moment)
