"""The events of a profile: what is to befall whom at which moment, fixed before the run, so that every rule meets it.

A device carries out what befalls it in its own process (``devices.device``); kills and rejoins are the launcher's.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TypeAlias

from testbed.profile.schema import DeviceGroup, Experiment, Phase, ScriptedEvent

EVERYBODY = "*"
CHANGES = ("rate", "speed", "drop")
"""They last; one of a kind is in force at a time, and when it is over, the profile's own figure holds again."""

Member: TypeAlias = tuple[str, DeviceGroup]
"""A device's name, and its group."""
Events: TypeAlias = Sequence[ScriptedEvent]
"""Of one device, in order."""
Absence: TypeAlias = tuple[float, float]
"""Beginning and end."""


# ---- who is meant


def events_of(experiment: Experiment, name: str, group: DeviceGroup) -> tuple[ScriptedEvent, ...]:
    """What is to befall one device, in order."""
    own = [replace(event, device=name) for event in experiment.events if concerns(event, name, group)]
    if experiment.replay.trace is not None:  # what the others did to computing and links is in the recording
        own = [event for event in own if event.do in ("kill", "rejoin")]
    return tuple(sorted(own, key=lambda event: event.at))


def concerns(event: ScriptedEvent, name: str, group: DeviceGroup) -> bool:
    """Whether an event befalls a device of a group."""
    return event.device in (EVERYBODY, name, group.name)


# ---- what a device meets


def phases(events: Events, do: str) -> tuple[Phase, ...]:
    """A change of a kind over time, as multiples of what the profile says."""
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
    """The probability of a loss for a transfer that begins then; None: what the profile says."""
    for event, end in _lasting(events, "drop"):
        if event.at <= moment < end:
            return event.value
    return None


def suspensions(events: Events, since: float) -> Iterator[Absence]:
    """The suspensions that end after ``since``; those that overlap are one. Death ends them: a new life is awake."""
    return (suspension for suspension in united(_each_hang(events), iter(())) if suspension[1] > since)


def _each_hang(events: Events) -> Iterator[Absence]:
    for event in events:
        if event.do == "suspend" and event.seconds is not None:
            died = (other.at for other in events if other.do == "kill" and other.at >= event.at)
            yield event.at, min(event.at + event.seconds, *died, math.inf)


def united(one: Iterator[Absence], other: Iterator[Absence]) -> Iterator[Absence]:
    """What is in either of two series, in order; those that overlap are one. Either may be endless."""
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
    """Each change of a kind, and when it ends: after its seconds, or when the next of its kind begins."""
    own = [event for event in events if event.do == do]
    for event, following in zip_longest(own, own[1:]):
        end = math.inf if event.seconds is None else event.at + event.seconds
        yield event, end if following is None else min(end, following.at)


def _rest(event: ScriptedEvent, since: float) -> ScriptedEvent:
    return replace(event, at=since, seconds=event.seconds and event.at + event.seconds - since)


class Script:
    """What is still to befall a device, in the life of it that begins at ``begins``."""

    def __init__(self, events: Events = (), begins: float = 0.0) -> None:
        died = max((event.at for event in events if event.do == "kill" and event.at < begins), default=-math.inf)
        in_force = {id(event) for do in CHANGES for event, end in _lasting(events, do) if end > begins}
        self._left = [
            # who was dead when something changed meets the rest of it on his return
            event if event.at >= begins else _rest(event, begins)
            for event in events
            if event.do != "rejoin" and (event.at >= begins or (event.at > died and id(event) in in_force))
        ]
        self._left.sort(key=lambda event: event.at)
        self.killed_at = min((event.at for event in self._left if event.do == "kill"), default=math.inf)

    @property
    def next(self) -> float:
        """When something happens next."""
        return self._left[0].at if self._left else math.inf

    def take(self) -> ScriptedEvent:
        return self._left.pop(0)


# ---- what the launcher does


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledAction:
    """To be done by the launcher at an emulated ``moment``, for an event ``at`` another."""

    moment: float
    at: float
    device: str
    do: str


def scheduled_actions(scripts: Iterable[Events], *, last_word: float, boot: float) -> list[ScheduledAction]:
    """Kills and rejoins of a fleet in the order in which they are done.

    A killed device is silent at once; its process is ended ``last_word`` seconds later, when it has told what it had
    not told yet. One that is to rejoin is forked ``boot`` seconds before, but never before it is dead.
    """
    found = []
    for events in scripts:
        moment = 0.0
        for event in events:
            if event.do in ("kill", "rejoin"):
                moment = max(moment, event.at + last_word if event.do == "kill" else event.at - boot)
                found.append(ScheduledAction(moment=moment, at=event.at, device=event.device, do=event.do))
    return sorted(found, key=lambda act: act.moment)
