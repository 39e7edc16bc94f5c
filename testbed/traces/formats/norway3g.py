"""Commutes on Norwegian 3G (Riiser et al., MMSys 2013; datasets.simula.no/hsdpa-tcp-logs).

The logs have six columns: Unix time, t_ms, latitude, longitude, bytes since the line above, ms since the line above.
Two other layouts are read: only the three columns ``t_ms bytes recv_ms``, and many traces in one table,
``trace,t_s,mbps``, where a rate is that of the time since the row above, as in Pensieve's files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path

from testbed.common.errors import UserError
from testbed.traces.formats import pensieve, text_file
from testbed.traces.formats.found_trace import Entry, FoundTrace, ImportOptions, cell, rate_trace

_COLUMNS = {6: (1, 4, 5), 3: (0, 1, 2)}
"""Number of columns → positions of t_ms, bytes and ms."""


def read(path: Path, options: ImportOptions) -> Iterator[Entry]:
    _, header = next(text_file.lines(path), (1, ""))
    if not header.startswith("trace,"):
        name = text_file.stem(path)
        yield Entry(name=name, build=lambda: FoundTrace(name=name, down=rate_trace(*_log(path), str(path))))
        return
    rows = text_file.rows(path, ("trace", "t_s", "mbps"), "trace,t_s,mbps")
    for name, group in groupby(rows, key=lambda row: row[1]["trace"]):
        yield Entry(name=name, build=partial(_found, name, group, path))


def _found(name: str, rows: Iterable[tuple[int, dict[str, str]]], path: Path) -> FoundTrace:
    samples = (
        (number, cell(row["t_s"], f"{path}, line {number}", "t_s"), cell(row["mbps"], f"{path}, line {number}", "mbps"))
        for number, row in rows
    )
    return FoundTrace(name=name, down=pensieve.trace(samples, path, f"{path}, {name!r}"))


def _log(path: Path) -> tuple[list[tuple[float, float]], float]:
    """Return the rows of a rate trace, and its end. Raises UserError."""
    rates: list[tuple[float, float]] = []
    total, last, waiting = 0.0, -1.0, 0.0
    for number, line in text_file.lines(path):
        cells, place = line.replace(",", " ").split(), f"{path}, line {number}"
        if not cells:
            continue
        if len(cells) not in _COLUMNS:
            raise UserError(
                f"{place}: has {len(cells)} columns; it must have t_ms, bytes, ms, or the six columns of the logs"
            )
        names = zip(("t_ms", "bytes", "ms"), _COLUMNS[len(cells)], strict=True)
        moment, size, milliseconds = (cell(cells[column], place, name) for name, column in names)
        if moment < last:
            raise UserError(f"{place}: t_ms is {moment:g}, after {last:g}; times must not decrease: sort the lines")
        last, waiting = moment, waiting + size
        if milliseconds > 0:
            rates.append((total / 1000, waiting * 8 / (milliseconds * 1000)))
            total, waiting = total + milliseconds, 0.0
    return rates, total / 1000
