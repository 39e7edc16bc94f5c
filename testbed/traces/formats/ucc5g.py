"""5G and 4G of an Irish operator (Raca et al., MMSys 2020): G-NetTrack's CSV, one row per second, kbit/s.

``-`` means unknown. Another layout is read as well: many logs in one table,
``trace,mobility,second,network_mode,dl_kbps,ul_kbps,ping_avg_ms,ping_loss``.
A rate is valid until the next row. Only the download rate is used: the upload rate is what a phone sent while it
downloaded, not what it could have sent. The delay is half the median round trip, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import groupby
from pathlib import Path

from testbed.common.errors import UserError
from testbed.common.stats import quantile
from testbed.traces.formats import text_file
from testbed.traces.formats.found_trace import Entry, FoundTrace, ImportOptions, cell, rate_trace

_UNKNOWN = ("", "-")
_NOTE = "up: the recorded upload rate is what the phone sent while it downloaded, not what it could have sent; ignored"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow:
    line: int
    trace: str
    second: float
    kbps: str
    ping_ms: str


def read(path: Path, options: ImportOptions) -> Iterator[Entry]:
    _, header = next(text_file.lines(path), (1, ""))
    rows = _many(path) if header.startswith("trace,") else _one(path)
    for name, group in groupby(rows, key=lambda row: row.trace):
        yield Entry(name=name, build=partial(_found, name, group, path, trim=options.trim))


def _one(path: Path) -> Iterator[LogRow]:
    """Yield the rows of a log of G-NetTrack."""
    needed = ("Timestamp", "DL_bitrate")
    begun: datetime | None = None
    for number, row in text_file.rows(path, needed, "G-NetTrack's: Timestamp,Longitude,…,DL_bitrate,UL_bitrate,…"):
        try:
            when = datetime.strptime(row["Timestamp"], "%Y.%m.%d_%H.%M.%S")
        except ValueError:
            problem = f"Timestamp is {row['Timestamp']!r}; it must be like 2020.01.16_10.43.34"
            raise UserError(f"{path}, line {number}: {problem}") from None
        begun = begun or when
        second = (when - begun).total_seconds()
        ping = row.get("PINGAVG", "-")
        yield LogRow(line=number, trace=text_file.stem(path), second=second, kbps=row["DL_bitrate"], ping_ms=ping)


def _many(path: Path) -> Iterator[LogRow]:
    needed = ("trace", "second", "dl_kbps", "ping_avg_ms")
    for number, row in text_file.rows(path, needed, "trace,mobility,second,network_mode,dl_kbps,…,ping_avg_ms,…"):
        second = cell(row["second"], f"{path}, line {number}", "second")
        yield LogRow(line=number, trace=row["trace"], second=second, kbps=row["dl_kbps"], ping_ms=row["ping_avg_ms"])


def _found(name: str, rows: Iterable[LogRow], path: Path, *, trim: bool) -> FoundTrace:
    rates: list[tuple[float, float]] = []
    pings: list[float] = []
    last = -1.0
    for row in rows:
        place = f"{path}, line {row.line}"
        if row.second < last:
            raise UserError(
                f"{place}: second is {row.second:g}, after {last:g}; times must not decrease: sort the rows"
            )
        if row.ping_ms not in _UNKNOWN:
            pings.append(cell(row.ping_ms, place, "the round trip"))
        if row.kbps not in _UNKNOWN and row.second > last:  # the first of two rows in one second counts
            mbps = cell(row.kbps, place, "the rate") / 1000
            if rates or mbps > 0 or not trim:
                rates.append((row.second, mbps))
        last = row.second
    if not rates:
        raise UserError(f"{path}, {name!r}: has no rate in any row; choose another")
    begun = rates[0][0]
    trace = rate_trace(((second - begun, mbps) for second, mbps in rates), last + 1 - begun, f"{path}, {name!r}")
    delay = round(quantile(pings, 0.5) / 2000, 6) if pings else None
    return FoundTrace(name=name, down=trace, delay=delay, notes=(_NOTE,))
