"""Injected link delay, 5 ms to 2 s: when a transfer was due, and when it ended."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.common.stats import quantile
from testbed.history import trace
from tests.benchmarks.fleets import carried_out
from tests.benchmarks.report import Result

_DELAYS = (0.005, 0.02, 0.1, 0.5, 2.0)
_SECONDS = 60.0


def measure() -> Iterator[Result]:
    groups = [
        {
            "name": f"d{delay * 1e3:g}ms",
            "profile": {"of_host": 0.02},
            "count": 1 if delay < 0.1 else 2,
            "link": {"up": {"delay": delay}, "down": {"delay": delay}},
        }
        for delay in _DELAYS
    ]
    run = carried_out({"devices": groups, "training": {"steps": 1}, "stop": {"seconds": _SECONDS}})
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
        for way, late in (("up, there", up), ("up, taken up after others", taken), ("down, there", down)):
            p50, p99 = quantile([abs(s) for s in late], 0.5), quantile([abs(s) for s in late], 0.99)
            yield Result(
                what=f"{delay * 1e3:g} ms {way} ({len(late)})",
                measured=f"p50 {p50 * 1e3:.3f} ms, p99 {p99 * 1e3:.2f} ms late, at most {max(late) * 1e3:.2f} ms",
                target="p50 ≤ 0.5 ms, p99 ≤ 3 ms",
                reached=p50 <= 0.0005 and p99 <= 0.003,
            )
