"""A test of the certificate: overcommitted FAIL, dilated PASS; 100 devices; the same timeline at any dilation.

Takes 5 minutes, most of them for 100 devices; ``--quick`` (a third of the emulated seconds): 2 minutes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from testbed.history import trace
from testbed.host import cores
from tests.benchmarks.fleets import Finished, carried_out
from tests.benchmarks.options import Options
from tests.benchmarks.records.figure import Figure, at_most, equal

_DEVICE_CORES = cores.roles().shareable
_OVERCOMMITTED: dict[str, Any] = {
    "devices": [{"name": "d", "profile": {"of_host": 0.1}, "link": "wifi", "count": 30 * len(_DEVICE_CORES)}],
    "training": {"steps": 10, "lr": 0.01},
    "stop": {"seconds": 15.0},
}
"""Each device core has 30 devices with a tenth of a core each: three times too much."""
HUNDRED: dict[str, Any] = {
    "devices": [
        {"profile": "rpi4", "link": "wifi", "count": 30, "drop": 0.05},
        {"profile": "rpi3bplus", "link": "wifi", "count": 30, "drop": 0.05},
        {"profile": "phone-low", "link": "lte", "count": 40, "drop": 0.05, "suspend": 0.05, "suspend_max": 2.0},
    ],
    "task": {"name": "digits", "split": "iid"},
    "training": {"steps": 10, "lr": 0.05},
    "stop": {"seconds": 12.0},
}
_STEADY: dict[str, Any] = {
    "devices": [
        {"name": name, "profile": {"seconds_per_sample": seconds}, "link": "wifi", "drop": 0.1, "suspend": 0.1}
        for name, seconds in (("a", 0.004), ("b", 0.0061), ("c", 0.0093))
    ],
    "training": {"steps": 4, "lr": 0.01},
    "stop": {"seconds": 15.0},
}


def measure(options: Options) -> Iterator[Figure]:
    overcommitted, hundred_devices, steady = (_shorter(table, options) for table in (_OVERCOMMITTED, HUNDRED, _STEADY))
    crowded, dilated = carried_out(overcommitted, "--no-admission"), carried_out(overcommitted, "--dilation", "auto")
    assert crowded is not None
    assert dilated is not None
    failed = crowded.invariants("FAIL")
    yield Figure(
        row="30 × 0.1 on each core with --no-admission",
        column="certificate",
        value=crowded.verdict if "step time" in failed else "without step time",
        aim=equal("FAIL"),
        note=", ".join(failed),
    )
    yield from _passes("30 × 0.1 on each core with --dilation auto", dilated)
    hundred = carried_out(hundred_devices, "--dilation", "auto")
    assert hundred is not None
    yield from _passes("100 devices with --dilation auto", hundred)
    yield from _planned(hundred)
    yield from _timelines(steady)


def _shorter(table: dict[str, Any], options: Options) -> dict[str, Any]:
    seconds = table["stop"]["seconds"]
    return table | {"stop": {"seconds": options.seconds(seconds, seconds / 3)}}


def _passes(row: str, run: Finished) -> Iterator[Figure]:
    doubtful = [
        f"{line['name']}: {line['found']}"
        for line in run.summary["fidelity"]["invariants"]
        if line["verdict"] in ("WARN", "FAIL")
    ]
    yield Figure(row=row, column="certificate", value=run.verdict, aim=equal("PASS"), note="; ".join(doubtful))
    yield Figure(row=row, column="dilation", value=run.summary["dilation"])


def _planned(run: Finished) -> Iterator[Figure]:
    """The demand on the cores by the plan, at a peak and in a slow moment, and what devices used in their jobs."""
    [header] = [event for event in run.events if isinstance(event, trace.Header)]
    used = sum(e.use.cpu for e in run.events if isinstance(e, trace.ComputeEvent) and e.use is not None)
    row = "100 devices: share of the cores of devices"
    yield Figure(row=row, column="planned", value=header.demand)
    yield Figure(row=row, column="used", value=used / run.summary["host_seconds"] / len(_DEVICE_CORES))


def _timelines(steady: dict[str, Any]) -> Iterator[Figure]:
    """Arrivals of each device's n-th update at dilations 2 and 4 against 1, with drops and suspensions."""
    runs = {dilation: carried_out(steady, "--dilation", dilation) for dilation in ("1", "2", "4")}
    arrivals = {dilation: _arrivals(run) for dilation, run in runs.items() if run is not None}
    for dilation in ("2", "4"):
        pairs = [
            (first, second)
            for device, times in arrivals["1"].items()
            for first, second in zip(times, arrivals[dilation][device], strict=False)
        ]
        apart = max(abs(first - second) for first, second in pairs)
        yield Figure(
            row=f"dilation {dilation} against 1: arrivals apart, at most",
            value=1e3 * apart,
            unit="emulated ms",
            aim=at_most(50.0),
            note=f"{len(pairs)} arrivals, the last after {max(first for first, _ in pairs):.0f} s",
        )


def _arrivals(run: Finished) -> dict[str, list[float]]:
    times: dict[str, list[float]] = defaultdict(list)
    for event in run.events:
        if isinstance(event, trace.Arrived):
            times[event.device].append(event.t)
    return times
