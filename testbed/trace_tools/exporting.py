"""``run_testbed.py trace export``: measured transfers and jobs of a run, or a rate, in formats of other programs."""

from __future__ import annotations

import json
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from testbed.common.errors import UserError
from testbed.common.files.csv_cells import CsvWriter
from testbed.common.files.file_names import file_name
from testbed.common.version import __version__
from testbed.history import trace
from testbed.history.trace import Event
from testbed.traces import rate
from testbed.traces.formats import mahimahi
from testbed.traces.rate import RateTrace

COLUMNS = ("t_s", "device", "kind", "requested", "actual", "size_bytes", "seed")
SCHEMA = 1
_MOST_PACKETS = 50_000_000


def rate_to_mahimahi(path: Path, out: Path) -> list[Path]:
    """Write Edgebed's own rate CSV as a Mahimahi trace; returns its path."""
    name = path.name.removesuffix(".gz").removesuffix(".csv")
    target = out / (name if name.endswith((".up", ".down")) else f"{name}.down")
    _write_link(target, rate.read(path))
    return [target]


# ---- a run's links


class LinkTransfers:
    """The transfers of one direction of one device."""

    def __init__(self) -> None:
        self.began, self.mbps = array("d"), array("d")

    def trace(self, end: float) -> RateTrace | None:
        """The rate over time: that of a transfer is valid until the next one begins."""
        rows = sorted({began: mbps for began, mbps in zip(self.began, self.mbps, strict=True) if began < end}.items())
        if not rows:
            return None
        return RateTrace([0.0, *(began for began, _ in rows[1:])], [mbps for _, mbps in rows], end)


def links(events: Iterable[Event], use: str) -> Iterator[tuple[str, str, RateTrace | None]]:
    """Device, direction and rate over time; ``use`` chooses the obtained or the asked seconds of transfers."""
    transfers: defaultdict[tuple[str, str], LinkTransfers] = defaultdict(LinkTransfers)
    end = 0.0
    for event in events:
        if isinstance(event, (trace.Downloaded, trace.Uploaded)):
            link = transfers[event.device, "down" if isinstance(event, trace.Downloaded) else "up"]
            seconds: float = getattr(event, use) - (event.absent or 0.0)
            end = max(end, event.sent + event.obtained)
            if seconds > 0:  # a link without a limit and a delay takes no time
                link.began.append(event.sent)
                link.mbps.append(event.bytes * 8e-6 / seconds)
        elif isinstance(event, trace.Stopped):
            end = max(end, event.t)
    for (device, direction), link in transfers.items():
        try:
            yield device, direction, link.trace(end)
        except ValueError as error:
            raise UserError(f"{device}, {direction}: no link has such transfers: {error}; choose another run") from None


def run_to_mahimahi(events: Iterable[Event], out: Path, use: str, notes: list[str]) -> list[Path]:
    written: list[Path] = []
    for device, direction, link in links(events, use):
        if link is None:
            notes.append(f"{device}, {direction}: its transfers took no time, so there is no rate to write")
            continue
        name = file_name(device)
        while (target := out / f"{name}.{direction}") in written:  # another device has the same file name
            name += "_"
        if name != device:
            notes.append(f"{target.name} belongs to {device}")
        _write_link(target, link)
        written.append(target)
    if not written:
        raise UserError("no transfer in the trace took any time; choose another run")
    notes.append("a rate is bytes ÷ seconds of a transfer, including its delay, until the next transfer begins")
    return written


def _write_link(target: Path, link: RateTrace) -> None:
    packets = link.mean * link.period / 8 / mahimahi.PACKET
    if packets > _MOST_PACKETS:
        raise UserError(
            f"{target}: would have {packets:.2g} lines, one per packet; the limit is {_MOST_PACKETS:.0e}: choose a"
            " shorter trace"
        )
    mahimahi.write(target, link)


# ---- a run's jobs


class JobsHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of jobs.csv: the format, its units, and what was run."""

    edgebed: str = __version__
    schema_version: int = SCHEMA
    unit: str = "seconds, bytes"
    t_s: str = "when it ended; suspend: when it began. A drop follows the transfer that was lost"
    name: str
    strategy: str
    dilation: float
    started: str
    host: str


def run_to_csv(events: Iterable[Event], out: Path) -> list[Path]:
    """Write one row for each transfer, job, drop and suspension, in the order of the trace; returns the path."""
    target = out / "jobs.csv"
    events = iter(events)
    header = next(events, None)
    if not isinstance(header, trace.Header):
        raise UserError("the trace does not begin with a header; choose another run")
    try:
        with target.open("w", encoding="utf-8", newline="") as file:
            file.write(f"# {json.dumps(msgspec.to_builtins(_about(header)))}\n")
            writer = CsvWriter(file)
            writer.row(COLUMNS)
            for event in events:
                writer.rows((round(row[0], 9), *row[1:], header.seed) for row in _rows(event))
    except UserError:  # half a table would look complete
        target.unlink()
        raise
    return [target]


def _about(header: trace.Header) -> JobsHeader:
    return JobsHeader(
        name=header.name,
        strategy=header.strategy,
        dilation=header.dilation,
        started=header.started,
        host=header.host,
    )


def _rows(event: Event) -> Iterator[tuple[float, str, str, float, float, int | str]]:
    match event:
        case trace.Downloaded() | trace.Uploaded():
            kind, ended = ("down" if isinstance(event, trace.Downloaded) else "up"), event.sent + event.obtained
            yield ended, event.device, kind, event.asked, event.obtained, event.bytes
            if event.dropped:
                yield ended, event.device, "drop", event.asked, event.obtained, event.bytes
        case trace.Trained():
            yield event.t, event.device, "compute", event.asked, event.obtained, ""
        case trace.Suspended():
            yield event.since, event.device, "suspend", event.asked, event.obtained, ""
            yield event.t, event.device, "resume", event.asked, event.obtained, ""
        case _:
            pass
