"""FedScale's ``client_behave_trace``: a table of client → {active, inactive, finish_time, …}, as pickle or JSON.

A client is available from active[i] to inactive[i], in seconds modulo finish_time (``fedscale/cloud/internal/
client_metadata.py``). The rest (duration, model) is not needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

from testbed.common.errors import UserError
from testbed.traces.formats import table_file
from testbed.traces.formats.found_trace import Entry, FoundTrace, ImportOptions, availability_trace, number, shown


def read(path: Path, options: ImportOptions) -> Iterator[Entry]:
    for client, table in table_file.entries(path):
        yield Entry(name=client, build=partial(_found, client, table, f"{path}, {client!r}"))


def _found(client: str, table: object, place: str) -> FoundTrace:
    active, inactive, finish = table_file.get(table, ("active", "inactive", "finish_time"), place)
    period = number(finish, place, "finish_time", least=1e-3)
    starts, ends = _moments(active, place, "active"), _moments(inactive, place, "inactive")
    if len(starts) == len(ends) + 1:
        ends = [*ends, period]  # still available when the recording ended
    if len(starts) != len(ends):
        raise UserError(
            f"{place}: has {len(starts)} times in active and {len(ends)} in inactive; there must be as many of both"
        )
    trace = availability_trace(zip(starts, ends, strict=True), period, place)
    return FoundTrace(name=f"client-{client}", availability=trace)


def _moments(value: object, place: str, what: str) -> list[float]:
    if not isinstance(value, (list, tuple)):
        raise UserError(f"{place}: {what} is {shown(value)}; it must be a list of seconds")
    moments = [number(each, place, f"{what}[{i}]") for i, each in enumerate(value)]
    for i, (before, after) in enumerate(pairwise(moments), 1):
        if after < before:
            raise UserError(f"{place}: {what}[{i}] is {after:g}, after {before:g}; times must not decrease: sort them")
    return moments
