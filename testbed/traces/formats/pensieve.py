"""Pensieve's traces (Mao et al., SIGCOMM 2017; ``traces/README.md`` and ``sim/env.py``): ``time_s throughput_mbps``.

A rate is that of the time since the line above, so the first line only defines when the trace begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from testbed.common.errors import UserError
from testbed.traces.formats import text_file
from testbed.traces.formats.found_trace import Entry, FoundTrace, ImportOptions, cell, rate_trace
from testbed.traces.rate import RateTrace


def read(path: Path, options: ImportOptions) -> Iterator[Entry]:
    name = text_file.stem(path)

    def build() -> FoundTrace:
        up = trace(_samples(options.up), options.up, str(options.up)) if options.up is not None else None
        return FoundTrace(name=name, down=trace(_samples(path), path, str(path)), up=up)

    yield Entry(name=name, build=build)


def trace(samples: Iterable[tuple[int, float, float]], path: Path, place: str) -> RateTrace:
    """Return a trace of samples (line, seconds, Mbit/s). Raises UserError."""
    begun: float | None = None
    end = 0.0
    rates: list[tuple[float, float]] = []
    for number, moment, mbps in samples:
        if begun is None:
            begun = moment
            continue
        since, end = end, round(moment - begun, 9)
        if end <= since:
            raise UserError(
                f"{path}, line {number}: time is {moment:g}, after {since + begun:g}; times must increase: sort them"
            )
        rates.append((since, mbps))
    return rate_trace(rates, end, place)


def _samples(path: Path) -> Iterator[tuple[int, float, float]]:
    for number, line in text_file.lines(path):
        cells, place = line.replace(",", " ").split(), f"{path}, line {number}"
        if not cells:
            continue
        if len(cells) != 2:
            raise UserError(f"{place}: is {line!r:.60}; a line is a time in seconds and a rate in Mbit/s")
        yield number, cell(cells[0], place, "the time"), cell(cells[1], place, "the rate")
