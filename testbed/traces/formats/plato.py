"""Lists of availability as JSON, for clients as Plato numbers them (Su et al., github.com/TL-System/plato).

Plato itself has no format for availability: it assumes that every client is available. Two formats of its users are
read:

* spans: ``{"1": [[0, 60], [120, 300]], "2": …}``, in seconds; all traces end with the last span of any client;
* slots: ``{"1": [1, 1, 0, 1], "2": …}``, 1 or 0 (or true and false) per round; ``--slot`` gives the length of a round.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from testbed.common.errors import UserError
from testbed.traces.availability import AvailabilityTrace
from testbed.traces.formats import json_stream
from testbed.traces.formats.found_trace import Entry, FoundTrace, ImportOptions, availability_trace, number, shown


def read(path: Path, options: ImportOptions) -> Iterator[Entry]:
    clients = {name: _checked(value, f"{path}, {name!r}") for name, value in json_stream.entries(path)}
    ends = [span[1] for value in clients.values() if _has_spans(value) for span in value]
    for name, value in clients.items():
        yield Entry(name=name, build=partial(_found, name, value, ends, options.slot, path))


def _found(name: str, value: list[Any], ends: list[Any], slot: float | None, path: Path) -> FoundTrace:
    place = f"{path}, {name!r}"
    trace = _of_spans(value, ends, place) if _has_spans(value) else _of_slots(value, slot, place)
    if slot is not None and _has_spans(value):
        raise UserError(f"{place}: has spans in seconds, not rounds; leave --slot out")
    return FoundTrace(name=f"client-{name}" if name.isdecimal() else name, availability=trace)


def _of_spans(spans: list[Any], ends: list[Any], place: str) -> AvailabilityTrace:
    last = 0.0
    pairs: list[tuple[float, float]] = []
    for i, span in enumerate(spans):
        start, end = (number(each, place, f"span {i}") for each in span)
        if start < last or end < start:
            raise UserError(
                f"{place}: span {i} is {span}, after {last:g}; spans must be in order, and end after they begin"
            )
        pairs.append((start, end))
        last = end
    return availability_trace(pairs, max(number(end, place, "an end") for end in ends), place)


def _of_slots(slots: list[Any], slot: float | None, place: str) -> AvailabilityTrace:
    if slot is None:
        raise UserError(f"{place}: has one value per round; give the seconds of a round with --slot")
    if not all(value in (0, 1) for value in slots):
        raise UserError(f"{place}: a value is neither 1 nor 0; it must be 1 (available) or 0 (away) per round")
    spans = [(i * slot, (i + 1) * slot) for i, value in enumerate(slots) if value]
    return availability_trace(spans, len(slots) * slot, place)


def _checked(value: object, place: str) -> list[Any]:
    pairs = isinstance(value, list) and all(isinstance(each, list) and len(each) == 2 for each in value)
    flags = isinstance(value, list) and all(isinstance(each, int) for each in value)
    if not (isinstance(value, list) and value and (pairs or flags)):
        raise UserError(
            f"{place}: is {shown(value)}; it must be a list of [start, end] in seconds, or of 1 and 0 per round"
        )
    return value


def _has_spans(value: list[Any]) -> bool:
    return isinstance(value[0], list)
