"""Overrides of single keys: ``--set a.b=value`` and options such as ``--strategy``."""

from __future__ import annotations

import json
import operator
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, SupportsIndex

from testbed.common.errors import ProfileError, UserError
from testbed.common.parameters import TomlTable

_PLAIN = re.compile(r"[\w.:/-]+")
"""A text that needs no quotes, wherever it stands."""


def parse(text: str) -> Any:
    """Return a value as TOML reads it; text that is not valid TOML is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def written(value: object) -> str:
    """Return a value as a text that :func:`parse` reads back. Raises UserError for a value that no profile can have."""
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) is not None and parse(value) == value
        return value if plain else json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(key))} = {_item(item)}" for key, item in value.items()) + "}"
    if isinstance(value, bool | float):
        return json.dumps(value)
    if isinstance(value, SupportsIndex):  # whole numbers, those of numpy included
        return str(operator.index(value))
    if isinstance(value, Iterable):
        return "[" + ", ".join(map(_item, value)) + "]"
    raise UserError(f"{value!r}: is not a value of a profile; use numbers, texts, true or false, lists or tables")


def _item(value: object) -> str:
    """A value within a list or table, where a text needs quotes."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else written(value)


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
            if isinstance(below, str) and step in ("strategy", "task", "split", "data_from"):
                place[step] = {"name": below}
        place = place[step]
