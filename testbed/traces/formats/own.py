"""The project's own CSV of a rate (``t_s,mbps``) or of availability (``t_s,available``).

``testbed/traces/rate.py`` and ``availability.py`` describe the format.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from testbed.common.errors import UserError
from testbed.traces import availability, rate
from testbed.traces.formats import text_file
from testbed.traces.formats.found_trace import Entry, FoundTrace, ImportOptions


def read(path: Path, options: ImportOptions) -> Iterator[Entry]:
    name = text_file.stem(path)

    def build() -> FoundTrace:
        up = rate.read(options.up) if options.up is not None else None
        if is_availability(path):
            if up is not None:
                raise UserError(f"{path}: contains availability; --up is only for a rate (t_s,mbps)")
            return FoundTrace(name=name, availability=availability.read(path))
        return FoundTrace(name=name, down=rate.read(path), up=up)

    yield Entry(name=name, build=build)


def is_availability(path: Path) -> bool:
    """Return whether the header is that of availability; else the reader of rates reports errors."""
    _, header = next(text_file.lines(path), (1, ""))
    return header.replace(" ", "") == "t_s,available"
