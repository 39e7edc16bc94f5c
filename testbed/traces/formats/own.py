"""Our own CSV of a rate (``t_s,mbps``) or of availability (``t_s,available``): checked, then copied.

``testbed/traces/rate.py`` and ``availability.py`` tell the format.
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
                raise UserError(f"{path}: is about availability; --up goes with a rate (t_s,mbps)")
            return FoundTrace(name=name, availability=availability.read(path))
        return FoundTrace(name=name, down=rate.read(path), up=up)

    yield Entry(name=name, build=build)


def is_availability(path: Path) -> bool:
    """By its header; anything else is taken for a rate, whose reader says what is wrong with it."""
    _, header = next(text_file.lines(path), (1, ""))
    return header.replace(" ", "") == "t_s,available"
