"""A test of the certificate: overcommitted FAIL, dilated PASS; 100 devices; the same timeline at any dilation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from testbed.history import trace
from testbed.host import cores
from tests.benchmarks.fleets import Finished, carried_out
from tests.benchmarks.report import Result

_DEVICE_CORES = set(cores.plan(cores.available_cores(), 1000).devices)
_OVERCOMMITTED: dict[str, Any] = {
    "devices": [{"name": "d", "profile": {"of_host": 0.1}, "link": "wifi", "count": 30 * len(_DEVICE_CORES)}],
    "training": {"steps": 10, "lr": 0.01},
    "stop": {"seconds": 15.0},
}
"""Each device core has 30 devices with a tenth of a core each: three times too much."""
_HUNDRED: dict[str, Any] = {
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


def measure() -> Iterator[Result]:
    crowded, dilated = carried_out(_OVERCOMMITTED, "--no-admission"), carried_out(_OVERCOMMITTED, "--dilation", "auto")
    assert crowded is not None
    assert dilated is not None
    yield Result(
        what="30 × 0.1 on each core with --no-admission",
        measured=f"{crowded.verdict}: {', '.join(crowded.invariants('FAIL'))}",
        target="FAIL",
        reached=crowded.verdict == "FAIL" and "step time" in crowded.invariants("FAIL"),
    )
    yield _passes("the same with --dilation auto", dilated)
    hundred = carried_out(_HUNDRED, "--dilation", "auto")
    assert hundred is not None
    yield _passes("100 devices with --dilation auto", hundred)
    yield _planned(hundred)
    yield from _timelines()


def _passes(what: str, run: Finished) -> Result:
    doubtful = [
        f"{line['name']}: {line['found']}"
        for line in run.summary["fidelity"]["invariants"]
        if line["verdict"] in ("WARN", "FAIL")
    ]
    return Result(
        what=f"{what} ({run.summary['dilation']:g})",
        measured="; ".join([run.verdict, *doubtful]),
        target="PASS",
        reached=run.verdict == "PASS",
    )


def _planned(run: Finished) -> Result:
    """The demand on the device cores by the plan, and the CPU seconds that devices used in their jobs."""
    [header] = [event for event in run.events if isinstance(event, trace.Header)]
    used = sum(e.use.cpu for e in run.events if isinstance(e, trace.ComputeEvent) and e.use is not None)
    return Result(
        what="of the core of devices, planned for slow moments at a peak, and used",
        measured=f"{header.demand:.2f} and {used / run.summary['host_seconds']:.2f}",
    )


def _timelines() -> Iterator[Result]:
    """Arrivals of each device's n-th update at dilations 2 and 4 against 1, with drops and suspensions."""
    runs = {dilation: carried_out(_STEADY, "--dilation", dilation) for dilation in ("1", "2", "4")}
    arrivals = {dilation: _arrivals(run) for dilation, run in runs.items() if run is not None}
    for dilation in ("2", "4"):
        pairs = [
            (first, second)
            for device, times in arrivals["1"].items()
            for first, second in zip(times, arrivals[dilation][device], strict=False)
        ]
        apart = max(abs(first - second) for first, second in pairs)
        yield Result(
            what=f"dilation {dilation} against 1: the same {len(pairs)} arrivals",
            measured=f"at most {apart * 1e3:.1f} emulated ms apart after {max(first for first, _ in pairs):.0f} s",
            target="≤ 50 ms",
            reached=apart <= 0.05,
        )


def _arrivals(run: Finished) -> dict[str, list[float]]:
    times: dict[str, list[float]] = defaultdict(list)
    for event in run.events:
        if isinstance(event, trace.Arrived):
            times[event.device].append(event.t)
    return times
