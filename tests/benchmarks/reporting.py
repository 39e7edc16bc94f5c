"""Reports: the page of 100 devices over 10 minutes, from the trace to the file."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.fleets import ROOT
from tests.benchmarks.report import Result
from tests.testbed.report.examples import large, write

_AIM_SECONDS, _AIM_MB = 15.0, 8.0


def measure() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        for devices, minutes, aims in ((100, 10, True), (500, 10, False), (100, 80, False)):
            yield from _made(Path(folder) / f"{devices}-{minutes}", devices, minutes, aims=aims)


def _made(folder: Path, devices: int, minutes: int, *, aims: bool) -> Iterator[Result]:
    """As for a user: including the start of the command and all imports."""
    write(folder, large(devices, 60.0 * minutes))
    began = time.perf_counter()
    subprocess.run([sys.executable, ROOT / "run_testbed.py", "report", folder], check=True, stdout=subprocess.DEVNULL)
    seconds, size = time.perf_counter() - began, (folder / "report.html").stat().st_size / 1e6
    yield Result(
        what=f"report of {devices} devices over {minutes} minutes",
        measured=f"{seconds:.1f} s",
        target=f"≤ {_AIM_SECONDS:g} s" if aims else "",
        reached=seconds <= _AIM_SECONDS if aims else None,
    )
    yield Result(
        what="… its size",
        measured=f"{size:.2f} MB",
        target=f"≤ {_AIM_MB:g} MB" if aims else "",
        reached=size <= _AIM_MB if aims else None,
    )
