"""Results: all files of an hour of 500 devices, from its trace in one pass.

Takes 70 s; ``--quick``: results of six minutes.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from testbed.report.content.report_data import ReportCollector
from testbed.runs import run_results
from testbed.runs.run_folder import RunFolder
from tests.benchmarks.options import Options
from tests.benchmarks.records.figure import Figure
from tests.benchmarks.traces import synthetic, write
from tests.testbed.examples import device_spec

_DEVICES, _SECONDS = 500, 3600.0


def measure(options: Options) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "logs").mkdir()
        folder = RunFolder(Path(place))
        events = write(folder.trace, synthetic(_DEVICES, options.seconds(_SECONDS, _SECONDS / 10)))
        size = f"{events / 1e6:.2f} M events, {folder.trace.stat().st_size / 1e6:.0f} MB"
        devices = [device_spec(f"device-{number}") for number in range(1, _DEVICES + 1)]
        began = time.process_time()
        folder.write_results(run_results.compute(folder.trace, devices))
        yield Figure(row="all result files", value=time.process_time() - began, unit="CPU s", note=size)
        collected, began = ReportCollector(), time.process_time()
        run_results.compute(folder.trace, devices, checkers=collected.checkers, listeners=collected.listeners)
        yield Figure(
            row="all results and what the report needs, not written", value=time.process_time() - began, unit="CPU s"
        )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        yield Figure(row="peak memory of both", value=peak, unit="MB")
