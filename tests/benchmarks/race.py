"""The end-to-end race: our updates per second against a bare loop and FedLab, the same work in real processes.

Unthrottled devices, no emulated links, one SGD step of batch 32 per update. The bare loop (``floor.py``) is a ZeroMQ
socket and the training step, on all cores. The three take turns, so that other load on the host affects all of them.
A turn takes about 8 s of measuring and 3 to 10 s of starting for each of the three: 8 rows of three turns take about
15 minutes, ``--turns 1 --devices 10 --size small`` two.
"""

from __future__ import annotations

import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from testbed.history import trace
from tests.benchmarks import floor
from tests.benchmarks.fleets import result, start, unthrottled
from tests.benchmarks.options import Options
from tests.benchmarks.records.figure import Figure, at_least, median
from tests.benchmarks.rivals import fedlab
from tests.benchmarks.rivals.fedlab import FedLabMissing

TURNS = 3
_OF_FLOOR = 0.9
_DEVICES = (10, 100)
_NETWORKS = {"small": ("cnn", "21,840 parameters"), "large": ("over-cnn", "663,226 parameters")}
_STRATEGIES = {"sync": "fedavg", "async": "fedasync"}
_SECONDS, _QUICK_SECONDS = 8.0, 4.0
_PATIENCE_SECONDS, _LOOK_SECONDS = 180.0, 0.25
_UNIT = "updates/s"


def measure(options: Options) -> Iterator[Figure]:
    missing = _why_no_fedlab(options)
    for size in options.sizes:
        for devices in options.chosen(_DEVICES):
            for mode in options.modes:
                yield from _row(devices, mode, size, options, missing)


def _why_no_fedlab(options: Options) -> str:
    if not options.fedlab:
        return "left out (--no-fedlab)"
    try:
        fedlab.check()
    except FedLabMissing as why:
        return str(why)
    return ""


def _row(devices: int, mode: str, size: str, options: Options, missing: str) -> Iterator[Figure]:
    network, parameters = _NETWORKS[size]
    seconds = options.seconds(_SECONDS, _QUICK_SECONDS)
    row = f"{parameters}, {devices} devices, {mode}"
    bare, ours, rival = [], [], []
    for _ in range(options.repeats(TURNS)):
        bare.append(
            floor.updates_per_second(devices=devices, synchronous=mode == "sync", network=network, seconds=seconds)
        )
        ours.append(_updates_per_second(devices, mode, size, seconds))
        if not missing:
            try:
                rival.append(fedlab.updates_per_second(clients=devices, mode=mode, network=network, seconds=seconds))
            except FedLabMissing as why:
                missing = str(why)
    yield median(row, "floor", bare, unit=_UNIT)
    yield median(row, "ours", ours, unit=_UNIT)
    yield median(row, "ours ÷ floor", _ratios(ours, bare), aim=at_least(_OF_FLOOR))
    if missing:
        yield Figure(row=row, column="FedLab", value=None, unit=_UNIT, note=missing)
        return
    yield median(row, "FedLab", rival, unit=_UNIT)
    yield median(row, "ours ÷ FedLab", _ratios(ours, rival), aim=at_least(1.0))


def _ratios(ours: list[float], others: list[float]) -> list[float]:
    """Turn by turn: the two of one turn met the same host."""
    return [mine / other for mine, other in zip(ours, others, strict=True)]


def _updates_per_second(devices: int, mode: str, size: str, seconds: float) -> float:
    """Updates after the warm-up, from the trace. The run ends by Ctrl-C when there are enough."""
    warm_up = floor.WARM_UP_UPDATES * devices
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        profile = unthrottled(
            folder,
            devices=devices,
            strategy=_STRATEGIES[mode],
            seconds=_PATIENCE_SECONDS,
            network=_NETWORKS[size][0],
        )
        run = start(profile, folder)
        _wait_for(warm_up, folder, run)
        time.sleep(seconds)
        run.send_signal(signal.SIGINT)
        summary = result(run)
        events = trace.read(Path(summary["run_folder"]) / "trace.jsonl")
        times = [event.t for event in events if isinstance(event, trace.Arrived)]
    measured = [t for t in times[warm_up:] if t <= times[warm_up] + seconds]
    return (len(measured) - 1) / (measured[-1] - measured[0])


def _wait_for(updates: int, out: Path, run: subprocess.Popen[str]) -> None:
    """Wait until so many updates are in the trace. Only new bytes are read: this must not disturb what is measured."""
    file, seen = None, 0
    try:
        while seen <= updates:
            if run.poll() is not None:
                result(run)
                raise RuntimeError(f"the run ended after {seen} updates; {updates} are its warm-up: a host too busy?")
            time.sleep(_LOOK_SECONDS)
            if file is None:
                file = next((path.open("rb") for path in out.glob("*/trace.jsonl")), None)
            if file is not None:
                seen += file.read().count(b'"kind":"arrived"')
    finally:
        if file is not None:
            file.close()
