"""The end-to-end race: our updates per second against the floor's, the same work in the same kind of processes."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from testbed.history import trace
from tests.benchmarks import floor
from tests.benchmarks.fleets import result, start, unthrottled
from tests.benchmarks.report import Result

_TARGETS = {10: 0.85, 100: 0.75}
_SECONDS = 8.0
_REPEATS = 3
_WARM_UPS_PER_SECOND = 20.0
_OTHERS = (
    ("FedLab", "1/1.8 to 1/2.4"),
    ("Plato", "1/3.3"),
    ("Flower, simulation, warm", "1/4.3"),
    ("Flower, deployment", "1/900"),
)


def measure() -> Iterator[Result]:
    for devices, target in _TARGETS.items():
        for strategy in ("fedavg", "fedasync"):
            floors, ours = [], []
            for _ in range(_REPEATS):  # alternately: other load on the host then affects both
                floors.append(
                    floor.updates_per_second(devices=devices, synchronous=strategy == "fedavg", seconds=_SECONDS)
                )
                ours.append(_updates_per_second(devices, strategy))
            ratios = [mine / bare for mine, bare in zip(ours, floors, strict=True)]
            ratio = statistics.median(ratios)
            yield Result(
                what=f"{strategy}, {devices} devices",
                measured=f"{statistics.median(ours):.0f}/s of {statistics.median(floors):.0f}/s"
                f" = {ratio:.2f} of the floor ({min(ratios):.2f} to {max(ratios):.2f})",
                target=f"≥ {target:g}",
                reached=ratio >= target,
            )
    for name, ratio_of_floor in _OTHERS:
        yield Result(what=f"{name} (measured elsewhere, same work)", measured=f"{ratio_of_floor} of the floor")


def _updates_per_second(devices: int, strategy: str) -> float:
    """Updates after the warm-up, from the trace."""
    with tempfile.TemporaryDirectory() as folder:
        seconds = _SECONDS + devices / _WARM_UPS_PER_SECOND
        profile = unthrottled(Path(folder), devices=devices, strategy=strategy, seconds=seconds)
        summary = result(start(profile, Path(folder)))
        events = trace.read(Path(summary["run_folder"]) / "trace.jsonl")
        times = [event.t for event in events if isinstance(event, trace.Arrived)]
    measured = times[floor.WARM_UP_UPDATES * devices :]
    return (len(measured) - 1) / (measured[-1] - measured[0])
