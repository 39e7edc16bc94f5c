"""Quotas: CPU seconds of a job over its seconds, against the given share (cgroup and signals).

Takes 4 minutes; ``--quick``: one and a half.
"""

from __future__ import annotations

from collections.abc import Iterator

from testbed.history import trace
from testbed.host.quotas import cgroups
from testbed.host.quotas.cgroup_files import QuotasUnavailable
from tests.benchmarks.fleets import carried_out
from tests.benchmarks.options import Options
from tests.benchmarks.records.figure import Figure, at_most

_SHARES = (0.3, 0.2, 0.05)
_SECONDS, _QUICK_SECONDS = 30.0, 13.0
_JOB_SECONDS = 4.0
_MOST_OFF = 3.0
_HOST_STEP_SECONDS = 0.006


def measure(options: Options) -> Iterator[Figure]:
    throttles = ["signal"]
    try:
        version = cgroups.find().version
        throttles.insert(0, "cgroup")
    except QuotasUnavailable as why:
        yield Figure(row="cgroup", column="mean off", value=None, unit="%", note=str(why))
    for throttle in throttles:
        for share in _SHARES:
            table = {
                "devices": [{"name": "d", "profile": {"throttle": throttle, "of_host": share}, "link": "wifi"}],
                "training": {"steps": max(20, round(_JOB_SECONDS * share / _HOST_STEP_SECONDS)), "lr": 0.01},
                "stop": {"seconds": options.seconds(_SECONDS, _QUICK_SECONDS)},
            }
            run = carried_out(table)
            assert run is not None
            jobs = [e for e in run.events if isinstance(e, trace.Trained) and e.use is not None and e.obtained >= 2.0]
            row = f"{f'cgroup v{version}' if throttle == 'cgroup' else throttle}, {share:g} of a core"
            if not jobs:
                yield Figure(row=row, column="mean off", value=None, unit="%", note="no job of ≥ 2 s: a host too fast")
                continue
            rate = sum(e.use.cpu for e in jobs if e.use is not None) / sum(e.obtained for e in jobs)
            off = [abs(e.use.cpu / e.obtained / share - 1) for e in jobs if e.use is not None]
            aim = at_most(_MOST_OFF) if throttle == "cgroup" else None
            yield Figure(row=row, column="mean off", value=100 * abs(rate / share - 1), unit="%", aim=aim)
            yield Figure(row=row, column="worst job off", value=100 * max(off), unit="%")
            yield Figure(row=row, column="jobs of ≥ 2 s", value=float(len(jobs)))
