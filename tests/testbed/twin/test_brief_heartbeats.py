"""Heartbeats that are not sent on a virtual clock change nothing but the order of lines in the trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.history import trace
from testbed.twin import virtual_device
from testbed.twin.virtual_device import DeviceDriver
from tests.testbed.twin.virtual import events_of, run_virtually
from tests.testbed.verification.test_verifying import LOSSY, RUNS

CASES = RUNS | {
    "a death": {
        "events": [{"at": 2.7, "device": "d-1", "do": "kill"}],
        "presence": {"heartbeat": 0.25, "timeout": 1.0},
    },
    "absences": {"devices": [LOSSY], "events": [{"at": 1.0, "device": "d-2", "do": "suspend", "seconds": 1.7}]},
}


def talkative(*arguments: object, brief: bool, **more: object) -> DeviceDriver:
    return DeviceDriver(*arguments, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CASES)
def test_nothing_follows_from_a_heartbeat_that_is_not_sent(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brief = run_virtually(tmp_path, out="brief", compute="none", **CASES[name])
    monkeypatch.setattr(virtual_device, "DeviceDriver", talkative)
    full = run_virtually(tmp_path, out="full", compute="none", **CASES[name])
    found = [
        [event for event in events_of(outcome) if not isinstance(event, trace.Header | trace.DeviceEvent)]
        for outcome in (brief, full)
    ]
    assert found[0] == found[1]
    by_devices = [
        sorted((event.t, repr(event)) for event in events_of(outcome) if isinstance(event, trace.DeviceEvent))
        for outcome in (brief, full)
    ]
    assert by_devices[0] == by_devices[1]
