"""Overrides of single keys: ``--set a.b=value`` and options such as ``--strategy``."""

from __future__ import annotations

import tomllib
from typing import Any

from testbed.common.errors import ProfileError
from testbed.common.parameters import TomlTable


def parse(text: str) -> Any:
    """Return a value as TOML reads it; text that is not valid TOML is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def put(table: TomlTable, key: str, value: Any, *, source: str) -> None:
    """Set a key such as ``a.b`` or ``devices[0].count`` in nested tables. Raises ProfileError.

    Where a strategy, task or split is only a name, it becomes a table with that name.
    """
    steps = key.replace("[", ".").replace("]", "").split(".")
    place: Any = table
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if isinstance(place, list):
            if not step.isdecimal() or int(step) >= len(place):
                raise ProfileError(source, key, f"has no entry {step!r}; the list has {len(place)}, counted from 0")
            step = int(step)  # type: ignore[assignment]
        elif not isinstance(place, dict):
            raise ProfileError(source, key, f"is not a known key: there is nothing below {place!r}")
        if following is None:
            place[step] = value
            return
        if isinstance(place, dict):
            below = place.setdefault(step, {})
            if isinstance(below, str) and step in ("strategy", "task", "split"):
                place[step] = {"name": below}
        place = place[step]
