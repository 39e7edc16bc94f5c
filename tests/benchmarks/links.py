"""Injected link delay, 5 ms to 2 s: when a transfer was due, and when it ended. Takes 70 s; ``--quick``: 25 s."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.common.stats import quantile
from testbed.history import trace
from tests.benchmarks.fleets import carried_out
from tests.benchmarks.options import Options
from tests.benchmarks.records.figure import Figure, at_most

_DELAYS = (0.005, 0.02, 0.1, 0.5, 2.0)
_SECONDS, _QUICK_SECONDS = 60.0, 18.0
_P50_MS, _P99_MS = 0.5, 3.0


def measure(options: Options) -> Iterator[Figure]:
    groups = [
        {
            "name": f"d{delay * 1e3:g}ms",
            "profile": {"of_host": 0.02},
            "count": 1 if delay < 0.1 else 2,
            "link": {"up": {"delay": delay}, "down": {"delay": delay}},
        }
        for delay in _DELAYS
    ]
    run = carried_out(
        {"devices": groups, "training": {"steps": 1}, "stop": {"seconds": options.seconds(_SECONDS, _QUICK_SECONDS)}}
    )
    assert run is not None
    for group, delay in zip(groups, _DELAYS, strict=True):
        name = str(group["name"])
        arrived = [e for e in run.events if isinstance(e, trace.Arrived) and e.device.startswith(f"{name}-")]
        down = [
            e.obtained - e.asked
            for e in run.events
            if isinstance(e, trace.Downloaded) and e.device.startswith(f"{name}-")
        ]
        up, taken = [max(0.0, e.received - e.due) for e in arrived], [e.handled - e.due for e in arrived]
        for way, late in (("up, arrived", up), ("up, handled", taken), ("down, arrived", down)):
            p50, p99 = quantile([abs(s) for s in late], 0.5), quantile([abs(s) for s in late], 0.99)
            row = f"{delay * 1e3:g} ms"
            yield Figure(row=row, column=f"{way}: p50 late", value=1e3 * p50, unit="ms", aim=at_most(_P50_MS))
            yield Figure(row=row, column=f"{way}: p99 late", value=1e3 * p99, unit="ms", aim=at_most(_P99_MS))
