"""Certificate and totals of runs with links that follow a trace and with absences."""

from __future__ import annotations

import msgspec
import pytest

from testbed.analysis.totals import totals
from testbed.fidelity.evidence import gather
from testbed.history import trace
from testbed.profile.schema import Direction
from tests.testbed.fidelity.test_evidence import (
    COMPUTE,
    DOWN,
    UP,
    arrived,
    dispatched,
    downloaded,
    trained,
    trips,
    uploaded,
)
from tests.testbed.fidelity.test_fidelity import FAIL, NOT_MEASURED, PASS, judged, spec, window

TRACED = spec(up=Direction(trace="rate.csv"))


@pytest.mark.parametrize(("error", "verdict"), [(0.01, PASS), (0.06, FAIL)])
def test_a_link_with_a_trace_is_judged_by_its_rate(error: float, verdict: str) -> None:
    assert judged("link rate", window(1, error), TRACED).verdict == verdict


def test_absences_do_not_lower_the_error_of_a_rate() -> None:
    # 101 s with an absence of 100 s: an error of 0.1 s is a tenth of the rest
    events = [uploaded(sent=0.0, asked=101.0, absent=100.0), arrived(at=101.1)]
    line = judged("link rate", events, TRACED)
    assert (line.verdict, line.figures["p50"]) == (FAIL, pytest.approx(1 - 1 / 1.1))
    assert judged("link rate", [uploaded(sent=0.0, asked=101.0, absent=100.5), arrived(at=101.1)], TRACED).verdict == (
        NOT_MEASURED
    )


def test_absences_do_not_excuse_a_late_delivery() -> None:
    late = [arrived(at=100.0 + UP + 0.06)]
    assert judged("link delay", [uploaded(sent=0.0, asked=100.0 + UP, absent=100.0), *late]).verdict == FAIL
    assert judged("link delay", [uploaded(sent=0.0, asked=100.0 + UP), *late]).verdict == PASS


def test_a_round_trip_counts_every_absence_once() -> None:
    """Absent for 10 s in the download, 20 s in the computing and 30 s in the upload."""
    suspension = trace.Suspended(t=0.0, device="a", ticket=0, asked=10.0, obtained=10.0)
    end = DOWN + COMPUTE + UP + 60.0
    events = [
        dispatched(),
        suspension,
        downloaded(asked=DOWN + 10, obtained=DOWN + 10, absent=10.0),
        msgspec.structs.replace(suspension, ticket=1, asked=20.0, obtained=20.0),
        trained(),
        msgspec.structs.replace(suspension, asked=30.0, obtained=30.0),
        uploaded(asked=UP + 30, obtained=UP + 30, absent=30.0),
        arrived(at=end),
    ]
    assert trips(gather(events).computed["a"]) == (1, end, end)
    joined = trace.Joined(t=0.0, device="a", pid=1, cores=[0], samples=1)
    found = totals([joined, *events]).devices["a"]
    assert (found.download_s, found.upload_s, found.suspended_s, found.busy_s) == (DOWN, UP, 60.0, COMPUTE)


def test_only_a_transfer_with_an_absence_has_the_field_in_the_trace() -> None:
    assert b"absent" not in msgspec.json.encode(uploaded())
    assert b'"absent":3.0' in msgspec.json.encode(uploaded(absent=3.0))
