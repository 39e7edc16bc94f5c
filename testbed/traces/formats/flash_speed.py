"""FLASH's ``speed_distri.json`` (Yang et al., WWW 2021): phone → {down_u, down_sigma, up_u, up_sigma}.

In FLASH, the speed of a transfer is N(u, σ), drawn again while it is negative. Here the rate is u, and a transfer takes
bytes ÷ rate × N(1, spread) with spread = σ ÷ u, at most 1. The user must give the unit: FLASH calls it kb/s, its code
uses KiB/s for downloads and divides uploads by a further 1000 (``models/device.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from testbed.common.errors import UserError, nearest
from testbed.traces.formats import table_file
from testbed.traces.formats.found_trace import Entry, FoundTrace, ImportOptions, number

UNITS = {"bit/s": 1e-6, "kbit/s": 1e-3, "Mbit/s": 1.0, "B/s": 8e-6, "kB/s": 8e-3, "KiB/s": 8.192e-3, "MB/s": 8.0}
"""Unit → Mbit/s."""


def read(path: Path, options: ImportOptions) -> Iterator[Entry]:
    if options.unit is None:
        raise UserError(
            f"{path}: give the unit with --unit, one of {', '.join(UNITS)}: FLASH calls it kb/s, but its code uses"
            " KiB/s for downloads and divides uploads by a further 1000"
        )
    if options.unit not in UNITS:
        raise UserError(f"--unit is {options.unit!r}; {nearest(options.unit, UNITS)}")
    factor = UNITS[options.unit]
    for phone, table in table_file.entries(path):
        yield Entry(name=phone, build=partial(_found, phone, table, factor, path))


def _found(phone: str, table: object, factor: float, path: Path) -> FoundTrace:
    place, link, notes = f"{path}, {phone!r}", {}, []
    for direction in ("down", "up"):
        keys = (f"{direction}_u", f"{direction}_sigma")
        mean, sigma = _pair(table_file.get(table, keys, place), keys, place)
        link[direction] = {"mbit": mean * factor, "spread": round(min(1.0, sigma / mean), 4)}
        if sigma > mean:
            notes.append(f"{phone}, {direction}: σ ÷ u is {sigma / mean:.2f}; the spread of a link is at most 1")
    return FoundTrace(name=phone, link=link, notes=tuple(notes))


def _pair(values: list[Any], keys: tuple[str, str], place: str) -> tuple[float, float]:
    return number(values[0], place, keys[0], least=1e-9), number(values[1], place, keys[1])
