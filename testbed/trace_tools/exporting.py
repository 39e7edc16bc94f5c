"""``run_testbed.py trace export``: what a run measured, or a rate, in formats that others read."""

from __future__ import annotations

import csv
import json
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import testbed
from testbed.common.errors import UserError
from testbed.common.file_names import file_name
from testbed.common.parameters import build
from testbed.history import trace
from testbed.history.trace import Event
from testbed.loading import profile_files
from testbed.traces import rate
from testbed.traces.formats import mahimahi
from testbed.traces.formats.fedscale_capacity import TRAINING
from testbed.traces.rate import RateTrace
from testbed.wire.messages import Job

COLUMNS = ("t_s", "device", "kind", "requested", "actual", "size_bytes", "seed")
SCHEMA = 1
_MOST_PACKETS = 50_000_000


def rate_to_mahimahi(path: Path, out: Path) -> list[Path]:
    """An own rate CSV as a link of Mahimahi's."""
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
        """The rate of a transfer holds until the next begins; nobody knows what would have passed between them."""
        rows = sorted({began: mbps for began, mbps in zip(self.began, self.mbps, strict=True) if began < end}.items())
        if not rows:
            return None
        return RateTrace([0.0, *(began for began, _ in rows[1:])], [mbps for _, mbps in rows], end)


def links(events: Iterable[Event], use: str) -> Iterator[tuple[str, str, RateTrace | None]]:
    """Device, direction and rate over time, as its transfers obtained it, or as they were asked for."""
    ways: defaultdict[tuple[str, str], LinkTransfers] = defaultdict(LinkTransfers)
    end = 0.0
    for event in events:
        if isinstance(event, (trace.Downloaded, trace.Uploaded)):
            way = ways[event.device, "down" if isinstance(event, trace.Downloaded) else "up"]
            seconds: float = getattr(event, use) - (event.absent or 0.0)
            end = max(end, event.sent + event.obtained)
            if seconds > 0:  # a link without a limit and a delay takes no time
                way.began.append(event.sent)
                way.mbps.append(event.bytes * 8e-6 / seconds)
        elif isinstance(event, trace.Stopped):
            end = max(end, event.t)
    for (device, direction), way in ways.items():
        yield device, direction, way.trace(end)


def run_to_mahimahi(events: Iterable[Event], out: Path, use: str, notes: list[str]) -> list[Path]:
    written: list[Path] = []
    for device, direction, link in links(events, use):
        if link is None:
            notes.append(f"{device}, {direction}: its transfers took no time, so there is no rate to write")
            continue
        name = file_name(device)
        while (target := out / f"{name}.{direction}") in written:  # another device's name looked the same
            name += "_"
        if name != device:
            notes.append(f"{target.name} is of {device}")
        _write_link(target, link)
        written.append(target)
    if not written:
        raise UserError("there is no transfer in the trace that took any time; choose another run")
    notes.append(
        "a rate is bytes ÷ seconds of a transfer, with its delay in it, and holds until the next transfer begins"
    )
    return written


def _write_link(target: Path, link: RateTrace) -> None:
    packets = link.mean * link.period / 8 / mahimahi.PACKET
    if packets > _MOST_PACKETS:
        raise UserError(
            f"{target}: would have {packets:.2g} lines, one per packet, and at most {_MOST_PACKETS:.0e} are written;"
            " choose a shorter trace"
        )
    mahimahi.write(target, link)


# ---- a run's jobs


def run_to_csv(events: Iterable[Event], out: Path) -> list[Path]:
    """One row for each thing that took time, in the order in which the aggregator learned of it."""
    target = out / "jobs.csv"
    events = iter(events)
    header = next(events, None)
    if not isinstance(header, trace.Header):
        raise UserError("the trace does not begin with a header; choose another run")
    try:
        with target.open("w", encoding="utf-8", newline="") as file:
            file.write(f"# {json.dumps(_about(header))}\n")
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            for event in events:
                writer.writerows((round(row[0], 9), *row[1:], header.seed) for row in _rows(event))
    except UserError:  # half a table would look like a whole one
        target.unlink()
        raise
    return [target]


def _about(header: trace.Header) -> dict[str, Any]:
    return {
        "edgebed": testbed.__version__,
        "schema_version": SCHEMA,
        "unit": "seconds, bytes",
        "t_s": "when it ended; suspend: when it began. A drop follows the transfer that was lost",
        "name": header.name,
        "strategy": header.strategy,
        "dilation": header.dilation,
        "started": header.started,
        "host": header.host,
    }


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


# ---- like FedScale's tables


class Client:
    """What one device did, as FedScale would sum it up."""

    def __init__(self) -> None:
        self.samples = self.trained = 0.0
        self.bits = self.moved = 0.0
        self.absences: list[tuple[float, float]] = []
        self.lives: list[tuple[float, float]] = []
        self._joined: float | None = None

    def joins(self, moment: float) -> None:
        self._joined = moment

    def leaves(self, moment: float) -> None:
        """Once per life: who is killed is found missing later."""
        if self._joined is not None:
            self.lives.append((self._joined, moment))
            self._joined = None

    def there(self) -> Iterator[tuple[float, float]]:
        """From joining to leaving, but for suspensions."""
        for begin, end in self.lives:
            for gone, back in sorted(self.absences):
                if back > begin and gone < end:
                    if gone > begin:
                        yield begin, gone
                    begin = back
            if end > begin:
                yield begin, end


def run_to_fedscale(events: Iterable[Event], out: Path, job: Callable[[], Job]) -> list[Path]:
    """Capacity and behaviour, as JSON: a pickle is a program, and nobody should have to run ours."""
    clients: defaultdict[str, Client] = defaultdict(Client)
    owned: dict[str, int] = {}
    batches: Job | None = None
    end = 0.0
    for event in events:
        match event:
            case trace.Joined():
                owned[event.device] = event.samples
                clients[event.device].joins(event.t)
            case trace.Left() | trace.Scripted(do="kill"):
                clients[event.device].leaves(event.t)
            case trace.Trained():
                batches = batches or job()
                client = clients[event.device]
                client.samples += batches.samples_after(event.steps, max(1, owned.get(event.device, 1)))
                client.trained += event.obtained
            case trace.Downloaded() | trace.Uploaded():
                client = clients[event.device]
                client.bits, client.moved = (
                    client.bits + event.bytes * 8,
                    client.moved + event.obtained - (event.absent or 0.0),
                )
            case trace.Suspended():
                clients[event.device].absences.append((event.since, event.t))
            case _:
                pass
        end = max(end, event.t)
    capacity = {
        name: {
            "computation": 1000 * client.trained / client.samples / TRAINING,
            "communication": client.bits / 1000 / client.moved,
        }
        for name, client in clients.items()
        if client.samples and client.moved
    }
    behaviour = {name: _behaviour(client, end) for name, client in clients.items()}
    if not capacity:
        raise UserError("no device finished a job over a link that takes time; choose a longer run")
    written = []
    for name, table in (("client_device_capacity", capacity), ("client_behave_trace", behaviour)):
        target = out / f"{name}.json"
        target.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
        written.append(target)
    return written


def _behaviour(client: Client, end: float) -> dict[str, Any]:
    """When it was there; in milliseconds' grain."""
    client.leaves(end)
    spans = list(client.there())
    return {
        "duration": round(end, 3),
        "finish_time": round(end, 3),
        "model": "edgebed",
        "active": [round(begin, 3) for begin, _ in spans],
        "inactive": [round(until, 3) for _, until in spans],
    }


def job_of(path: Path, batch: int | None) -> Job:
    """The local training of a run: by --batch, or by the profile beside its trace."""
    if batch is not None:
        return Job(batch=batch)
    profile = path.parent / "profile.toml"
    if not profile.is_file():
        raise UserError(f"{profile}: there is no such file to tell how many samples a step has; give them with --batch")
    return build(Job, profile_files.read_toml(profile).get("training", {}), str(profile), "training")
