"""Run folders for tests: a trace that is written event by event, and the results that follow from it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from testbed.history import trace
from testbed.history.trace import Event, TraceWriter
from testbed.host.rapl import HostEnergy
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Replay
from testbed.runs import run_results
from testbed.runs.results.summary import Summary
from testbed.runs.run_folder import RunFolder


def write_trace(path: Path, events: Iterable[Event]) -> Path:
    writer = TraceWriter(path)
    for event in events:
        writer.write(event)
    writer.close()
    return path


def new_folder(out: Path, events: Iterable[Event], name: str = "demo") -> RunFolder:
    """Create the folder of a run with a trace and no results."""
    folder = RunFolder.new(out, name, datetime(2024, 1, 2, 3, 4, 5))
    write_trace(folder.trace, events)
    return folder


def write_results(
    folder: RunFolder,
    devices: Sequence[DeviceSpec],
    replayed: Replay | None = None,
    *,
    target: float | None = None,
    host_energy: HostEnergy | None = None,
    tensorboard: bool = False,
) -> Summary:
    """Compute the results from the trace and write them, as at the end of a run."""
    results = run_results.compute(folder.trace, devices, replayed, target=target, host_energy=host_energy)
    folder.write_results(results, tensorboard=tensorboard)
    return results.summary


def counted_reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that are opened to decode events from now on, one entry for each time."""
    found: list[Path] = []
    read = trace.read

    def counting(path: Path, torn: Callable[[int], None] = lambda line: None) -> Iterator[Event]:
        found.append(path)
        return read(path, torn)

    monkeypatch.setattr(trace, "read", counting)
    return found


def plain(value: object) -> Any:
    """A struct as a JSON reader sees it: dictionaries and lists."""
    return json.loads(msgspec.json.encode(value))
