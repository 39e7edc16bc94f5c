"""Large fleets of unthrottled devices: when they are ready, their memory, how they end, and whether all stay present.

FedAvg with one training step per job: the first version means that every device has trained and delivered. The run goes
on for some seconds, then the memory is measured, and Ctrl-C ends it.
"""

from __future__ import annotations

import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from testbed.history import trace
from testbed.host.kernel import ExitWatch
from tests.benchmarks.commands import time_zero
from tests.benchmarks.fleets import result, start, unthrottled
from tests.benchmarks.options import Options
from tests.benchmarks.records.figure import Figure, at_most, equal

FLEETS = (100, 300, 500, 1000)
_READY = {100: 10.0, 300: 10.0, 500: 10.0, 1000: 10.0}
_EACH_MB, _TOTAL_GB, _END = 9.0, 9.0, 2.0
_PATIENCE_SECONDS = 180.0
_ON_SECONDS, _QUICK_ON_SECONDS = 12.0, 3.0
_LOOK_SECONDS = 0.02
_LOOKED_AT = 40


def measure(options: Options) -> Iterator[Figure]:
    for devices in options.chosen(FLEETS):
        with tempfile.TemporaryDirectory() as folder:
            yield from _fleet(devices, Path(folder), options.seconds(_ON_SECONDS, _QUICK_ON_SECONDS))


def _fleet(devices: int, folder: Path, on_seconds: float) -> Iterator[Figure]:
    row = f"{devices} devices"
    profile = unthrottled(folder, devices=devices, strategy="fedavg", seconds=_PATIENCE_SECONDS)
    began = time.time()
    run = start(profile, folder)
    path = _first_version(folder, run)
    if path is None:
        _, errors = run.communicate()
        yield Figure(row=row, column="ready", value=None, note=(errors.strip().splitlines() or ["it ended"])[-1])
        return
    time.sleep(on_seconds)
    # a device that was dropped for its silence joins a second time, as the same process
    pids = sorted({event.pid for event in trace.read(path) if isinstance(event, trace.Joined)})
    unique, total = _memory(run, pids)
    watch = ExitWatch()
    for pid in pids:
        watch.watch(str(pid), pid)
    asked, asked_at = time.monotonic(), time.time()
    run.send_signal(signal.SIGINT)
    gone = _seconds_until_gone(watch, len(pids), asked)
    summary = result(run)
    ended = time.monotonic() - asked
    yield from _start_figures(row, devices, path, began)
    aim = at_most(_EACH_MB)
    yield Figure(row=row, column="unique memory each", value=unique, unit="MB", aim=aim)
    yield Figure(row=row, column="total memory", value=total, unit="GB", aim=at_most(_TOTAL_GB))
    yield Figure(row=row, column="all ended after", value=gone, unit="s", aim=at_most(_END))
    yield Figure(row=row, column="command ended after", value=ended, unit="s")
    yield from _presence(row, path, summary, asked_at)


def _start_figures(row: str, devices: int, path: Path, began: float) -> Iterator[Figure]:
    zero = time_zero(path.parent)
    first = next(event.t for event in trace.read(path) if isinstance(event, trace.Aggregated))
    yield Figure(row=row, column="ready", value=zero - began, unit="s", aim=at_most(_READY[devices]))
    yield Figure(row=row, column="first version", value=zero + first - began, unit="s")


def _first_version(out: Path, run: subprocess.Popen[str]) -> Path | None:
    """Wait for version 1. Returns the trace, or None if the run ended without it."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until and run.poll() is None:
        time.sleep(10 * _LOOK_SECONDS)
        for path in out.glob("*/trace.jsonl"):
            if b'"kind":"aggregated"' in path.read_bytes():
                return path
    return None


def _memory(run: subprocess.Popen[str], pids: list[int]) -> tuple[float, float]:
    """Unique MB of a device, and GB of all processes of the run, where shared pages count once.

    Only some devices are looked at, all are alike: reading the page tables of all would disturb them for seconds.
    """
    some = [psutil.Process(pid).memory_full_info() for pid in pids[:: max(1, len(pids) // _LOOKED_AT)]]
    family = psutil.Process(run.pid).children(recursive=True)
    rest = [psutil.Process(run.pid), *(process for process in family if process.pid not in set(pids))]
    others = sum(process.memory_full_info().pss for process in rest)
    total = others + len(pids) * statistics.mean(device.pss for device in some)
    return statistics.mean(device.uss for device in some) / 1e6, total / 1e9


def _seconds_until_gone(devices: ExitWatch, left: int, since: float) -> float:
    """Seconds until the last device process has ended. Looking at each would take a core from those that end."""
    while left:
        left -= len(devices.ended())
        time.sleep(_LOOK_SECONDS)
    return time.monotonic() - since


def _presence(row: str, path: Path, summary: dict[str, Any], asked_at: float) -> Iterator[Figure]:
    """Devices that left before and after Ctrl-C, and Trains sent again. The dilation is 1."""
    zero = time_zero(path.parent)
    left = [event for event in trace.read(path) if isinstance(event, trace.Left)]
    early = [event for event in left if zero + event.t < asked_at]
    note = f"{early[0].reason}; {early[0].t:.1f} to {early[-1].t:.1f} s after the start" if early else ""
    yield Figure(row=row, column="dropped", value=float(len(early)), unit="devices", aim=equal(0.0), note=note)
    yield Figure(row=row, column="dropped while ending", value=float(len(left) - len(early)), unit="devices")
    yield Figure(row=row, column="sent again", value=float(summary["resent"]), unit="Trains", aim=equal(0.0))
