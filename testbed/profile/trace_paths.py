"""Trace files that a profile names: checked, and called by their full path, so that a stored run can be run again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from testbed.common.errors import ProfileError, UserError
from testbed.profile.schema import DeviceGroup, Direction, LinkProfile
from testbed.traces import availability, rate


def of_link(link: LinkProfile, folder: Path, source: str, key: str = "") -> LinkProfile:
    """The link with its traces found; they are named relative to ``folder``. ``key``: where the link stands."""
    prefix = f"{key}." if key else ""
    return replace(
        link,
        up=_of_direction(link.up, folder, source, f"{prefix}up"),
        down=_of_direction(link.down, folder, source, f"{prefix}down"),
    )


def of_group(group: DeviceGroup, folder: Path, source: str, key: str) -> DeviceGroup:
    """The group with its availability found."""
    if group.availability is None:
        if group.availability_offset is not None:
            raise ProfileError(source, f"{key}.availability_offset", "is given without availability")
        return group
    place = _checked(availability.load, group.availability, folder, source, f"{key}.availability")
    return replace(group, availability=place)


def _of_direction(way: Direction, folder: Path, source: str, key: str) -> Direction:
    if way.trace is None:
        if way.trace_offset is not None:
            raise ProfileError(source, f"{key}.trace_offset", "is given without a trace")
        return way
    if way.mbit is not None:
        raise ProfileError(source, f"{key}.mbit", f"is {way.mbit:g}, beside a trace, which has the rate: give only one")
    if way.spread:
        problem = f"is {way.spread:g}, beside a trace, whose rate changes by itself: leave it out"
        raise ProfileError(source, f"{key}.spread", problem)
    return replace(way, trace=_checked(rate.load, way.trace, folder, source, f"{key}.trace"))


def _checked(load: Callable[[str], object], name: str, folder: Path, source: str, key: str) -> str:
    try:
        place = str((folder / name).resolve())
        load(place)
    except (UserError, OSError, ValueError, RuntimeError) as error:  # a name may be too long, or hold any character
        raise ProfileError(source, key, f"is {name!r}; {error}") from None
    return place
