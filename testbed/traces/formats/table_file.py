"""Tables of many clients, as JSON or as a pickle of the same structure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from testbed.common.errors import UserError
from testbed.common.files import unpickle
from testbed.common.files.compressed import opened
from testbed.traces.formats import json_stream
from testbed.traces.formats.found_trace import shown


def entries(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield name and value of each client. JSON is streamed; a pickle is loaded as a whole. Raises UserError."""
    if _is_json(path):
        yield from json_stream.entries(path)
        return
    table = unpickle.load(path)
    if not isinstance(table, dict):
        raise UserError(f"{path}: contains a {type(table).__name__}; it must be a table of clients")
    yield from ((str(name), value) for name, value in table.items())


def get(table: object, keys: tuple[str, ...], place: str) -> list[Any]:
    """Return the values of some keys of a client's table. Raises UserError if one is missing."""
    if not isinstance(table, Mapping):
        raise UserError(f"{place}: is {shown(table)}; it must be a table with {', '.join(keys)}")
    missing = [key for key in keys if key not in table]
    if missing:
        known = ", ".join(sorted(map(str, table))) or "nothing"
        raise UserError(f"{place}: has no {missing[0]!r} (it has: {known}); is it another kind of file?")
    return [table[key] for key in keys]


def _is_json(path: Path) -> bool:
    with opened(path) as file:
        return file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")
