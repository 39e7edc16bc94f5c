"""Trace files that a profile names: they are checked, and their paths made absolute for the stored profile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from testbed.common.errors import ProfileError, UserError
from testbed.profile.schema import DeviceGroup, Direction, LinkProfile
from testbed.traces import availability, rate


def of_link(link: LinkProfile, folder: Path, source: str, key: str = "") -> LinkProfile:
    """Return the link with absolute paths instead of paths relative to ``folder``. Raises ProfileError."""
    prefix = f"{key}." if key else ""
    return replace(
        link,
        up=_of_direction(link.up, folder, source, f"{prefix}up"),
        down=_of_direction(link.down, folder, source, f"{prefix}down"),
    )


def of_group(group: DeviceGroup, folder: Path, source: str, key: str) -> DeviceGroup:
    """Return the group with the absolute path of its availability trace. Raises ProfileError."""
    if group.availability is None:
        if group.availability_offset is not None:
            raise ProfileError(source, f"{key}.availability_offset", "is given without availability")
        return group
    place = _checked(availability.load, group.availability, folder, source, f"{key}.availability")
    return replace(group, availability=place)


def _of_direction(direction: Direction, folder: Path, source: str, key: str) -> Direction:
    if direction.trace is None:
        if direction.trace_offset is not None:
            raise ProfileError(source, f"{key}.trace_offset", "is given without a trace")
        return direction
    if direction.mbit is not None:
        problem = f"is {direction.mbit:g}, but the trace defines the rate: give only one"
        raise ProfileError(source, f"{key}.mbit", problem)
    if direction.spread:
        problem = f"is {direction.spread:g}, but the trace defines how the rate changes: leave it out"
        raise ProfileError(source, f"{key}.spread", problem)
    return replace(direction, trace=_checked(rate.load, direction.trace, folder, source, f"{key}.trace"))


def _checked(load: Callable[[str], object], name: str, folder: Path, source: str, key: str) -> str:
    try:
        place = str((folder / name).resolve())
        load(place)
        place.encode()  # the stored profile is UTF-8
    except (
        UserError,
        OSError,
        ValueError,
        RuntimeError,
    ) as error:  # the name may be too long or contain invalid characters
        raise ProfileError(source, key, f"is {name!r}; {error}") from None
    return place
