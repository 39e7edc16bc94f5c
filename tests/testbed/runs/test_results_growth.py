"""The memory in which results and report are made does not grow with the length of the run."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from testbed.common.files import spool
from testbed.fidelity import link_evidence
from testbed.history import trace
from testbed.report.content import binning, report_data
from testbed.report.content.report_data import ReportCollector
from testbed.runs import run_results
from testbed.runs.run_folder import RunFolder
from testbed.runs.stored_run import StoredRun
from tests.benchmarks.traces import synthetic, write
from tests.testbed.examples import device_spec

DEVICES = 4
LONG = 4
"""The long run is so many times as long."""
MOST_BYTES = 12.0
"""For each further event: 5 for tickets (22 bytes each), and scores, of which there are few."""


def powered(seconds: float) -> Iterator[trace.Event]:
    """A run of some devices with a power model, short jobs, drops and suspensions."""
    watts = trace.Watts(idle=1.0, compute=4.0, transmit=0.5, receive=0.25)
    for event in synthetic(DEVICES, seconds):
        yield msgspec.structs.replace(event, watts=watts) if isinstance(event, trace.Joined) else event


def peak(folder: Path, seconds: float) -> tuple[int, int]:
    """The most memory in which all result files and the data of the report are made, and the number of events."""
    (folder / "logs").mkdir(parents=True)
    run = RunFolder(folder)
    events = write(run.trace, powered(seconds))
    devices = [device_spec(f"device-{number}") for number in range(1, DEVICES + 1)]
    gc.collect()
    tracemalloc.start()
    try:
        collected = ReportCollector()
        results = run_results.compute(run.trace, devices, checkers=collected.checkers, listeners=collected.listeners)
        run.write_results(results)
        stored = StoredRun.open(folder)
        stored.keep(results.scanned, None)
        data = report_data.gather(stored, collected)
        binning.band(data.losses, data.total.seconds)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        run.release()
    return most, events


def test_memory_does_not_grow_with_the_number_of_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # what is kept in memory before it is written to a file is full in the short run, too
    monkeypatch.setattr(spool, "_NUMBERS_IN_MEMORY", 1024)
    monkeypatch.setattr(spool, "_ROWS_IN_MEMORY", 64)
    monkeypatch.setattr(link_evidence, "_BATCH", 64)
    monkeypatch.setattr(binning, "_MOST_AT_ONCE", 1024)
    peak(tmp_path / "first", 500.0)  # what is imported and cached once does not count
    short, events = peak(tmp_path / "short", 6000.0)
    long, more_events = peak(tmp_path / "long", LONG * 6000.0)
    assert more_events > 0.9 * LONG * events > 40_000
    assert (long - short) / (more_events - events) < MOST_BYTES
