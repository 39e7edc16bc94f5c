"""Numbers at the limits of a profile: no process fails because it waits for thirty years."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.common.parameters import LEAST_MBIT, LONGEST, MOST_DILATION
from testbed.history import trace
from tests.live.leftovers import nothing_left_over
from tests.live.runs import complete, started, write_profile

pytestmark = pytest.mark.live

FLEET: list[dict[str, Any]] = [
    {"profile": "rpi4", "link": "wifi", "count": 2},
    {
        "profile": "rpi4",
        "name": "slow-upload",
        "link": {"up": {"mbit": LEAST_MBIT, "delay": LONGEST, "jitter": LONGEST}},
    },
    {"profile": "rpi4", "name": "slow-download", "link": {"down": {"delay": LONGEST}}},
    {"profile": "rpi4", "name": "held", "link": "wifi", "suspend": 1.0, "suspend_max": LONGEST},
    {"profile": "rpi4", "name": "stopped", "suspend": 1.0, "suspend_max": LONGEST, "suspend_by": "signal"},
]
PATIENT: dict[str, Any] = {
    "presence": {"heartbeat": LONGEST / 2, "timeout": LONGEST},
    "evaluation": {"every": LONGEST},
    "checkpoint": {"seconds": LONGEST},
}


@pytest.fixture(autouse=True)
def no_leftovers() -> Iterator[None]:
    with nothing_left_over():
        yield


def test_devices_that_wait_for_decades_do_not_end_a_run(tmp_path: Path) -> None:
    stop = {"versions": 10, "seconds": LONGEST, "delivery": LONGEST}
    outcome = complete(write_profile(tmp_path, devices=FLEET, stop=stop, **PATIENT), "--no-admission")
    assert outcome.code == 0, outcome.stderr
    assert "ended with exit code" not in outcome.stderr
    assert outcome.summary["versions"] == 10
    assert {event.device for event in outcome.of_kind(trace.Arrived)} == {"rpi4-1", "rpi4-2"}


def test_a_run_in_which_a_second_takes_days_can_be_interrupted(tmp_path: Path) -> None:
    profile = write_profile(tmp_path, devices=FLEET, dilation=MOST_DILATION, stop={"seconds": LONGEST}, **PATIENT)
    with started(profile, "--no-admission") as run:
        run.wait_until_traced("dispatched", 6)
        run.process.send_signal(signal.SIGINT)
        outcome = run.finish()
    assert outcome.code == 128 + signal.SIGINT, outcome.stderr
    assert "ended with exit code" not in outcome.stderr
    assert outcome.summary["dispatched"] == outcome.summary["in_flight"] == 6
