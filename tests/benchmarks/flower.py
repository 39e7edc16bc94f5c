"""A Flower project here and in Flower's own deployment mode: start-up time, and memory of each of ten clients.

Takes a minute: each mode runs once, one after the other, with the same project (PyTorch, Message API).
"""

from __future__ import annotations

import datetime
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from testbed.history import trace
from tests.benchmarks.options import Options
from tests.benchmarks.records.figure import Figure, at_most, median
from tests.benchmarks.records.provenance import ROOT
from tests.benchmarks.rivals import flower_deployment
from tests.benchmarks.rivals.flower_deployment import FOLDER, FlowerMissing, StartAndMemory

TURNS = 1
_CLIENTS = 10
_PROJECT = ROOT / "tests" / "flower" / "projects" / "torch_messages"
_LOOK_SECONDS = 0.05
_PARAMETERS = 3_060
_MOST_BYTES = 20e6 + 2 * 4 * _PARAMETERS
"""Of a device's unique memory: 20 MB and two models."""
_PROFILE = f"""
task = "flower:{_PROJECT}"
strategy = "fedasync"
[[devices]]
name = "client"
count = {_CLIENTS}
profile = {{ throttle = "pace", seconds_per_sample = 0.01 }}
[stop]
seconds = 10.0
"""


def measure(options: Options) -> Iterator[Figure]:
    row = f"Flower project, {_CLIENTS} clients"
    try:
        flower_deployment.check()
        both = [(_ours(), flower_deployment.measure(_PROJECT, _CLIENTS)) for _ in range(options.repeats(TURNS))]
    except FlowerMissing as why:
        yield Figure(row=row, column="start-up here", value=None, unit="s", note=str(why))
        return
    ours, theirs = [pair[0] for pair in both], [pair[1] for pair in both]
    aim = at_most(_MOST_BYTES / 1e6)
    yield median(row, "start-up here", [each.seconds for each in ours], unit="s")
    yield median(row, "start-up in deployment mode", [each.seconds for each in theirs], unit="s")
    yield median(row, "memory of a client here", [each.client_bytes / 1e6 for each in ours], unit="MB", aim=aim)
    yield median(row, "memory of a client in deployment mode", [each.client_bytes / 1e6 for each in theirs], unit="MB")


def _ours() -> StartAndMemory:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        profile, out = folder / "flower.toml", folder / "runs"
        profile.write_text(_PROFILE, encoding="utf-8")
        command = [str(FOLDER / "bin" / "python"), str(ROOT / "run_testbed.py"), "run", str(profile)]
        where = flower_deployment.environment()
        began = time.time()
        with subprocess.Popen(
            [*command, "--out", str(out), "--no-report"], env=where, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as run:
            try:
                traces = _wait_for_trace(out, run)
                pids = json.loads((traces.parent / "meta.json").read_text(encoding="utf-8"))["pids"]
                devices = [pid for process, pid in pids.items() if process.startswith("client-")]
                most = flower_deployment.watched_memory(devices, lambda: run.poll() is None)
                header = next(event for event in trace.read(traces) if isinstance(event, trace.Header))
            finally:
                run.terminate()
        seconds = datetime.datetime.fromisoformat(header.started).timestamp() - began
        return StartAndMemory(seconds, sum(most) / len(most))


def _wait_for_trace(out: Path, run: subprocess.Popen[bytes]) -> Path:
    """Wait for the first jobs of a run. Raises FlowerMissing if it fails."""
    while (
        not (found := [path for path in out.glob("*/trace.jsonl") if path.stat().st_size])
        or not (found[0].parent / "meta.json").exists()
    ):
        if run.poll() is not None:
            assert run.stdout is not None
            raise FlowerMissing(f"our run failed: {run.stdout.read().decode(errors='replace').strip()[-150:]}")
        time.sleep(_LOOK_SECONDS)
    return found[0]
