"""Mahimahi's link traces (Netravali et al., USENIX ATC 2015; ``traces/README`` and ``link_queue.cc`` of its source).

A line is one opportunity to send 1500 bytes: a whole number of milliseconds since the start. Lines may repeat but never
decrease, and the last is the length of the trace, which then repeats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from testbed.common.errors import UserError
from testbed.traces.formats import text_file
from testbed.traces.formats.found_trace import Entry, FoundTrace, ImportOptions, rate_trace
from testbed.traces.rate import RateTrace

PACKET = 1500
_BIN = 0.1
_DIGITS = 15
"""Maximum length of a line: 30,000 years."""


def read(path: Path, options: ImportOptions) -> Iterator[Entry]:
    if path.name.removesuffix(".gz").endswith(".up"):
        raise UserError(f"{path}: is an uplink by its name; give the downlink (.down), and this file with --up")
    width = _milliseconds(options.bin or _BIN)

    def build() -> FoundTrace:
        up = link(options.up, width) if options.up is not None else None
        return FoundTrace(name=text_file.stem(path), down=link(path, width), up=up)

    yield Entry(name=text_file.stem(path), build=build)


def link(path: Path, width: int) -> RateTrace:
    """Return the rate over time: the mean of each ``width`` milliseconds. Raises UserError."""
    packets: Counter[int] = Counter()
    last = 0
    for number, line in text_file.lines(path):
        if not (line.isascii() and line.isdecimal() and len(line) <= _DIGITS):
            raise UserError(f"{path}, line {number}: is {line!r:.60}; each line must be a whole number of milliseconds")
        moment = int(line)
        if moment < last:
            raise UserError(
                f"{path}, line {number}: is {moment}, after {last}; times must not decrease: sort the lines, or"
                " remove the last one if the file is incomplete"
            )
        packets[moment // width] += 1
        last = moment
    if last == 0:
        raise UserError(f"{path}: lasts 0 ms; the last line must be above 0: it is the length of the trace")
    if last % width == 0:  # packets at the end of the trace belong to its last bin
        packets[last // width - 1] += packets.pop(last // width)
    return rate_trace(_rates(packets, width, last), last / 1000, str(path))


def _rates(packets: Counter[int], width: int, last: int) -> Iterator[tuple[float, float]]:
    """Yield begin and Mbit/s of each bin with packets, and of the outages between them."""
    until = 0
    for place in sorted(packets):
        begin = place * width
        if begin > until:
            yield until / 1000, 0.0
        until = min(begin + width, last)
        yield begin / 1000, packets[place] * PACKET * 8 / (1000 * (until - begin))  # 1 bit per µs is 1 Mbit/s


def write(path: Path, trace: RateTrace) -> int:
    """Write the trace as opportunities and return their number. At any moment, the error is at most half a packet."""
    end = max(1, round(trace.period * 1000))
    count = 0
    with path.open("w", encoding="ascii") as file:
        waiting: int | None = None
        for moment in _opportunities(trace):
            if waiting is not None:
                file.write(f"{waiting}\n")
            waiting, count = min(moment, end), count + 1
        file.write(f"{end}\n")  # the last line is the length of the trace
    if waiting is None:
        path.unlink()
        raise UserError(f"{path}: cannot be written: the trace transfers less than half a packet of {PACKET} bytes")
    return count


def _opportunities(trace: RateTrace) -> Iterator[int]:
    """Yield the millisecond in which the middle of each packet is sent."""
    passed, packets = 0.0, 0
    pieces = list(trace.pieces)
    ends = [*(moment for moment, _ in pieces[1:]), trace.period]
    for (begin, mbps), end in zip(pieces, ends, strict=True):
        speed = mbps * 1e6 / 8
        until = passed + (end - begin) * speed
        while (packets + 0.5) * PACKET <= until:
            yield int((begin + ((packets + 0.5) * PACKET - passed) / speed) * 1000 + 1e-6)
            packets += 1
        passed = until


def _milliseconds(seconds: float) -> int:
    width = round(seconds * 1000)
    if width < 1 or abs(width - seconds * 1000) > 1e-6:
        raise UserError(f"--bin is {seconds:g}; it must be a whole number of milliseconds, at least 0.001")
    return width
