"""Reports: the page of 100 devices over 10 minutes, from the trace to the file.

Takes 40 s; ``--quick``: only the first row.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.fleets import ROOT
from tests.benchmarks.options import Options
from tests.benchmarks.records.figure import Figure, at_most
from tests.testbed.report.examples import large, write

_AIM_SECONDS, _AIM_MB = 15.0, 8.0
_CASES = ((100, 10, True), (500, 10, False), (100, 80, False))


def measure(options: Options) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        for devices, minutes, aims in _CASES[:1] if options.quick else _CASES:
            yield from _made(Path(folder) / f"{devices}-{minutes}", devices, minutes, aims=aims)


def _made(folder: Path, devices: int, minutes: int, *, aims: bool) -> Iterator[Figure]:
    """As for a user: including the start of the command and all imports."""
    write(folder, large(devices, 60.0 * minutes))
    began = time.perf_counter()
    subprocess.run([sys.executable, ROOT / "run_testbed.py", "report", folder], check=True, stdout=subprocess.DEVNULL)
    seconds, size = time.perf_counter() - began, (folder / "report.html").stat().st_size / 1e6
    row = f"{devices} devices over {minutes} minutes"
    yield Figure(row=row, column="time", value=seconds, unit="s", aim=at_most(_AIM_SECONDS) if aims else None)
    yield Figure(row=row, column="size", value=size, unit="MB", aim=at_most(_AIM_MB) if aims else None)
