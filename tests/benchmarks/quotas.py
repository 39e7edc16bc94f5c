"""Quotas: CPU seconds of a job over its seconds, against the given share (cgroup and signals)."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.history import trace
from testbed.host import cgroups
from testbed.host.cgroup_files import QuotasUnavailable
from tests.benchmarks.fleets import carried_out
from tests.benchmarks.report import Result

_SHARES = (0.3, 0.2, 0.05)
_SECONDS = 30.0
_JOB_SECONDS = 2.5
_HOST_STEP_SECONDS = 0.006


def measure() -> Iterator[Result]:
    throttles = ["signal"]
    try:
        version = cgroups.find().version
        throttles.insert(0, "cgroup")
    except QuotasUnavailable as why:
        yield Result(what="cgroup", measured=f"not measured: {why}")
    for throttle in throttles:
        for share in _SHARES:
            table = {
                "devices": [{"name": "d", "profile": {"throttle": throttle, "of_host": share}, "link": "wifi"}],
                "training": {"steps": max(20, round(_JOB_SECONDS * share / _HOST_STEP_SECONDS)), "lr": 0.01},
                "stop": {"seconds": _SECONDS},
            }
            run = carried_out(table)
            assert run is not None
            jobs = [e for e in run.events if isinstance(e, trace.Trained) and e.use is not None and e.obtained >= 2.0]
            rate = sum(e.use.cpu for e in jobs if e.use is not None) / sum(e.obtained for e in jobs)
            off = [abs(e.use.cpu / e.obtained / share - 1) for e in jobs if e.use is not None]
            label = f"cgroup v{version}" if throttle == "cgroup" else throttle
            yield Result(
                what=f"{label}, {share:g} of a core ({len(jobs)} jobs of ≥ 2 s)",
                measured=f"mean rate {rate:.4f} ({rate / share - 1:+.2%}), worst job {max(off):.2%} off",
                target="within 3 %" if throttle == "cgroup" else "",
                reached=abs(rate / share - 1) <= 0.03 if throttle == "cgroup" else None,
            )
