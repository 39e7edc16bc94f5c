"""The same profile on the wall clock and on a virtual one: they are equal until the host is late for the first time."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from testbed.history import trace
from tests.live.runs import complete, write_profile

pytestmark = pytest.mark.live

FLEET: list[dict[str, Any]] = [
    {"profile": "rpi4", "link": "wifi", "count": 3},
    {"profile": "phone-low", "name": "phone", "link": "lte", "count": 2, "suspend": 0.3, "suspend_max": 0.2},
]


def first_lateness(events: Sequence[trace.Event]) -> float:
    """The moment before which no cause was late on this host: no step, no download and no update."""
    moments = [math.inf]
    for event in events:
        if isinstance(event, trace.Trained) and event.misses:
            moments.append(event.t - event.obtained)
        elif isinstance(event, trace.Downloaded) and event.obtained > event.asked + 1e-9:
            moments.append(event.sent + event.asked)
        elif isinstance(event, trace.Arrived) and event.received > event.due:
            moments.append(event.due)
    return min(moments)


def arrivals(events: Sequence[trace.Event], before: float) -> list[tuple[object, ...]]:
    found = [event for event in events if isinstance(event, trace.Arrived) and event.due < before]
    return [(each.device, each.ticket, each.due, each.version, each.staleness, each.loss) for each in found]


@pytest.mark.parametrize("strategy", ["fedasync", {"name": "fedbuff", "k": 2}])
def test_both_clocks_agree_on_every_arrival_until_the_host_is_late(strategy: object, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"strategy": strategy, "devices": FLEET, "stop": {"seconds": 4.0}, "dilation": 3.0}
    wall = complete(write_profile(tmp_path, **changes), "--no-admission").events
    late = first_lateness(wall)
    shutil.rmtree(tmp_path / "runs", ignore_errors=True)
    virtual = complete(write_profile(tmp_path, **changes), "--clock", "virtual").events
    expected = arrivals(virtual, late)
    if not expected:
        pytest.skip(f"this host was late already at {late:.3f} s")
    assert arrivals(wall, late) == expected
