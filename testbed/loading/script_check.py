"""Checks of the scripted events of a profile."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.common.errors import ProfileError, nearest
from testbed.common.number_limits import LEAST_MULTIPLE
from testbed.profile.schema import DeviceGroup, DeviceProfile, Experiment, LinkProfile, ScriptedEvent
from testbed.profile.script import ALL_DEVICES, CHANGES, Events, Member, is_for

_MANY = 20
"""Maximum number of device names in an error; for a larger fleet, it lists the groups."""
_VALUES = {"drop": "the probability of a loss", "poison": "the factor"}


def check(experiment: Experiment, members: Sequence[Member], source: str) -> None:
    """Raise ProfileError if the events cannot be carried out."""
    for i, event in enumerate(experiment.events):
        _check_keys(event, source, f"events[{i}]")
        _check_target(event, members, experiment.cell is not None, source, f"events[{i}]")
    killed: dict[str, int] = {}
    occupied: dict[tuple[str, str, float], int] = {}
    for i, event in sorted(enumerate(experiment.events), key=lambda pair: pair[1].at):
        for name in (name for name, group in members if is_for(event, name, group)):
            other = occupied.setdefault((name, event.do, event.at), i)
            if other != i:
                problem = f"is {event.at:g}; events[{other}] has {event.do!r} for {name} at that moment: leave one out"
                raise ProfileError(source, f"events[{i}].at", problem)
            _check_life(event, name, killed, experiment.events, source, f"events[{i}]")
            if event.do == "kill":
                killed[name] = i
            elif event.do == "rejoin":
                del killed[name]
    if len(killed) == len(members) and experiment.stop.seconds is None:
        last = max(killed.values(), key=lambda i: experiment.events[i].at)
        problem = "is 'kill', and no device is left to end the run: let one rejoin, or set stop.seconds"
        raise ProfileError(source, f"events[{last}].do", problem)


def too_late(experiment: Experiment) -> list[str]:
    """Return a warning for each event that is scheduled after the end of the run."""
    end = experiment.stop.seconds
    if end is None:
        return []
    return [
        f"events[{i}].at is {event.at:g}; the run ends at {end:g} (stop.seconds), so {event.do!r} will not happen"
        for i, event in enumerate(experiment.events)
        if event.at >= end
    ]


def _check_keys(event: ScriptedEvent, source: str, key: str) -> None:
    """Refuse keys and values that do not belong to the ``do`` of the event."""
    if event.do == "poison" and event.how is None:
        raise ProfileError(source, f"{key}.how", "is missing; poison needs it: sign-flip, noise or scaled")
    if event.do != "poison" and event.how is not None:
        raise ProfileError(source, f"{key}.how", f"is {event.how!r}, but {event.do!r} does not use it: leave it out")
    if event.do == "suspend" and event.seconds is None:
        raise ProfileError(source, f"{key}.seconds", "is missing; suspend needs it: how long the device is suspended")
    if event.do in ("kill", "rejoin") and event.seconds is not None:
        problem = f"is {event.seconds:g}, but {event.do!r} does not use it: leave it out"
        if event.do == "kill":
            problem += ", and add a rejoin event"
        raise ProfileError(source, f"{key}.seconds", problem)
    if event.do not in CHANGES:
        if event.value is not None:
            raise ProfileError(
                source, f"{key}.value", f"is {event.value:g}, but {event.do!r} does not use it: leave it out"
            )
        return
    meaning = _VALUES.get(event.do, "a multiple of what the profile says")
    if event.value is None:
        raise ProfileError(source, f"{key}.value", f"is missing; {event.do} needs it: {meaning}")
    if event.do == "drop" and event.value >= 1:
        raise ProfileError(source, f"{key}.value", f"is {event.value:g}; drop is {meaning}: at least 0 and below 1")
    if event.do in ("rate", "speed") and event.value < LEAST_MULTIPLE:
        problem = f"is {event.value:g}; {event.do} is {meaning}: at least {LEAST_MULTIPLE:g}"
        raise ProfileError(source, f"{key}.value", f"{problem} (to stop a device, use suspend)")


def _check_target(event: ScriptedEvent, members: Sequence[Member], in_cell: bool, source: str, key: str) -> None:
    hit = [(name, group) for name, group in members if is_for(event, name, group)]
    if not hit:
        raise ProfileError(source, f"{key}.device", f"is {event.device!r}; {_known(event.device, members)}")
    if event.do == "rate" and not in_cell and not any(_has_rate(group) for _, group in hit):
        problem = f"is 'rate', but the link of {hit[0][0]} has no limit in either direction: there is nothing to change"
        raise ProfileError(source, f"{key}.do", problem)
    for name, group in hit:
        assert isinstance(group.profile, DeviceProfile)
        if event.do == "speed" and group.profile.throttle != "pace":
            problem = f"is 'speed', but {name} has throttle = {group.profile.throttle!r}: only 'pace' follows a change"
            raise ProfileError(source, f"{key}.do", problem)


def _has_rate(group: DeviceGroup) -> bool:
    assert isinstance(group.link, LinkProfile)
    return group.link.up.has_rate or group.link.down.has_rate


def _known(wrong: str, members: Sequence[Member]) -> str:
    """Return the most similar name and the known names, short even for a large fleet."""
    names, groups = [name for name, _ in members], {str(group.name) for _, group in members}
    if len(names) <= _MANY:
        return nearest(wrong, {*names, *groups, ALL_DEVICES})
    close = nearest(wrong, [*names, *groups]).partition(" (known")[0]
    hint = f"{close} " if close.startswith("did") else ""
    return f"{hint}known: {', '.join(sorted(groups))}, each of their {len(names)} devices, and {ALL_DEVICES}"


def _check_life(event: ScriptedEvent, name: str, killed: dict[str, int], events: Events, source: str, key: str) -> None:
    by = killed.get(name)
    if event.do == "rejoin":
        if by is None:
            raise ProfileError(
                source, f"{key}.do", f"is 'rejoin', but {name} is alive at {event.at:g}: add a kill event before"
            )
        if events[by].at == event.at:
            problem = f"is {event.at:g}, when {name} is killed (events[{by}]): it can rejoin only later"
            raise ProfileError(source, f"{key}.at", problem)
    elif event.do in ("kill", "suspend") and by is not None:
        problem = f"is {event.do!r}, but {name} was killed at {events[by].at:g} (events[{by}]): let it rejoin before"
        raise ProfileError(source, f"{key}.do", problem)
