"""Runs for reports: a small one with every kind of event, by hand, and large generated ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from testbed.history import trace
from testbed.history.trace import Event
from testbed.report.content.report_data import RunData, gather
from testbed.runs.stored_run import StoredRun
from tests.benchmarks.traces import synthetic
from tests.testbed.analysis import histories

NASTY = "</script><script>alert(1)</script>"
"""A device name that tries to run as a script in the page."""

HEADER = trace.Header(
    t=0.0,
    schema=trace.SCHEMA,
    name="demo",
    strategy="fedasync",
    parameters={"alpha": 0.5},
    seed=7,
    dilation=2.0,
    demand=0.5,
    pressure=None,
    started="2026-01-02T03:04:05.678+00:00",
    host="a host",
)


def arrived(ticket: int, at: float, loss: float | None, device: str = "a") -> trace.Arrived:
    return trace.Arrived(
        t=at,
        device=device,
        ticket=ticket,
        due=at,
        received=at,
        handled=at,
        bytes=100,
        version=0,
        staleness=0,
        loss=loss,
    )


SMALL: list[Event] = [
    HEADER,
    histories.joined("a"),
    histories.joined("b"),
    histories.sent(1, 0.0, "a"),
    histories.sent(2, 0.0, "b"),
    histories.download(1, 0.0, 1.0, "a"),
    histories.download(2, 0.0, 0.5, "b", dropped=True),
    histories.trained(1, 3.0, 2.0, "a"),
    histories.upload(1, 3.0, 4.0, "a"),
    arrived(1, 4.0, 2.0, "a"),
    histories.made(1, 4.0, 1),
    histories.scored(1, 4.0, 0.5),
    histories.scripted("kill", 4.0, "b"),
    histories.scripted("rejoin", 6.0, "b"),
    histories.sent(3, 4.0, "a"),
    histories.download(3, 4.0, 4.5, "a"),
    histories.trained(3, 6.5, 2.0, "a"),
    histories.upload(3, 6.5, 7.0, "a"),
    arrived(3, 7.0, 1.0, "a"),
    histories.made(2, 7.0, 3),
    histories.scored(2, 7.0, 0.75),
    histories.stopped(8.0),
]
"""Two devices, 8 seconds: b loses a download, dies and comes back; a does two jobs."""

FIDELITY: dict[str, Any] = {
    "verdict": "WARN",
    "dilation": 2.0,
    "invariants": [
        {"name": "step time", "verdict": "PASS", "found": "1% off", "limits": "p99 ≤ 5 %", "worst": "a", "figures": {}},
        {"name": "loss", "verdict": "WARN", "found": "1 of 3 lost", "limits": "exact", "worst": "b", "figures": {}},
    ],
}
REPLAY: dict[str, Any] = {
    "trace": "runs/old/trace.jsonl",
    "mode": "strict",
    "end": "loop",
    "use": "obtained",
    "delays": {
        "computing": {"count": 2, "p50_s": 0.001, "p99_s": 0.002, "max_s": 0.003},
        "download": None,
        "all": {"count": 2, "p50_s": 0.001, "p99_s": 0.002, "max_s": 0.003},
    },
    "beyond_the_recording": 1,
    "arrivals": 2,
    "arrivals_recorded": 2,
    "arrivals_common": 2,
    "arrivals_in_order": 1.0,
    "same_staleness": True,
    "same_arrivals": True,
    "same_model": None,
    "model": "",
}
META: dict[str, Any] = {
    "edgebed": "0.1.0",
    "python": "3.11.2",
    "packages": {"torch": "2.13.0"},
    "host": {"system": "Linux", "processor": "a processor", "cores": 2, "memory_bytes": 8_000_000_000},
    "seed": 7,
}
PROFILE = """
name = "demo"
task = { name = "digits", model = "small-cnn" }
stop = { seconds = 8, target_accuracy = 0.75 }
"""


def write(folder: Path, events: Iterable[Event] = SMALL, *, beside: bool = False, name: str = "trace.jsonl") -> Path:
    """Write the trace of a run and, on request, the other files of its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    writer = trace.TraceWriter(folder / name)
    for event in events:
        writer.write(event)
    writer.close()
    if beside:
        for file, table in (("fidelity", FIDELITY), ("replay", REPLAY), ("meta", META)):
            (folder / f"{file}.json").write_text(json.dumps(table), encoding="utf-8")
        (folder / "profile.toml").write_text(PROFILE, encoding="utf-8")
    return folder / name


def gathered(path: Path) -> RunData:
    """Return the data of a report of the run at ``path``."""
    return gather(StoredRun.open(path))


def renamed(events: Iterable[Event], **names: str) -> list[Event]:
    """The same with other names of devices."""
    return [
        msgspec.structs.replace(event, device=names[event.device]) if getattr(event, "device", "") in names else event
        for event in events
    ]


def without_power(events: Iterable[Event], *devices: str) -> list[Event]:
    return [
        msgspec.structs.replace(event, watts=None)
        if isinstance(event, trace.Joined) and event.device in devices
        else event
        for event in events
    ]


def large(devices: int, seconds: float) -> Iterator[Event]:
    """A run of FedAsync in which devices have power models and a version is scored once per second."""
    scored = 0.0
    for event in synthetic(devices, seconds):
        yield msgspec.structs.replace(event, watts=histories.WATTS) if isinstance(event, trace.Joined) else event
        if isinstance(event, trace.Aggregated) and event.t >= scored:
            scored = event.t + 1.0
            learned = 1 - 0.9 * 2.0 ** (-event.t / (0.15 * seconds))
            scores = {"accuracy": learned, "loss": 2.3 * (1 - learned)}
            yield trace.Scored(t=event.t + 0.1, version=event.version, made=event.t, metrics=scores)
