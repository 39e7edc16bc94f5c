"""Seconds until N device processes have done their first training step, and the unique memory of each."""

from __future__ import annotations

import json
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.benchmarks.fleets import result, start, unthrottled
from tests.benchmarks.report import Result

_TARGET_SECONDS = {100: 10.0, 300: 45.0}
_TARGET_MB = 25.0
_PATIENCE_SECONDS = 180.0


def measure() -> Iterator[Result]:
    for devices, target in _TARGET_SECONDS.items():
        seconds, memory = _start_up(devices)
        yield Result(
            what=f"{devices} devices ready, first training step done",
            measured=f"{seconds:.1f} s after typing the command",
            target=f"≤ {target:g} s",
            reached=seconds <= target,
        )
        yield Result(
            what=f"{devices} devices, unique memory (USS)",
            measured=f"mean {sum(memory) / len(memory):.1f} MB, largest {max(memory):.1f} MB",
            target=f"≤ {_TARGET_MB:g} MB each",
            reached=max(memory) <= _TARGET_MB,
        )


def _start_up(devices: int) -> tuple[float, list[float]]:
    """One FedAvg round means: every device has trained one step and delivered it."""
    with tempfile.TemporaryDirectory() as folder:
        profile = unthrottled(Path(folder), devices=devices, strategy="fedavg", seconds=_PATIENCE_SECONDS)
        began = time.monotonic()
        run = start(profile, Path(folder))
        pids = _wait_for_first_version(Path(folder), began)
        seconds = time.monotonic() - began
        memory = [psutil.Process(pid).memory_full_info().uss / 1e6 for pid in pids]
        run.send_signal(signal.SIGINT)
        result(run)
    return seconds, memory


def _wait_for_first_version(out: Path, began: float) -> list[int]:
    """The pids of the devices, once the trace contains version 1."""
    while time.monotonic() - began < _PATIENCE_SECONDS:
        time.sleep(0.05)
        for trace in out.glob("*/trace.jsonl"):
            text = trace.read_text(encoding="utf-8")
            if '"kind":"aggregated"' in text:
                events = [json.loads(line) for line in text.splitlines() if line.startswith('{"kind":"joined"')]
                return [event["pid"] for event in events]
    raise RuntimeError(f"no version within {_PATIENCE_SECONDS:g} s")
