"""A link whose rate follows a trace, and a device that is away now and then: real processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.history import trace
from testbed.host.survey import Survey
from testbed.loading import profile_loader
from testbed.profile import fleet
from testbed.profile.fleet import DeviceSpec
from testbed.traces import availability, rate
from testbed.traces.availability import AvailabilityTrace
from testbed.traces.rate import RateTrace
from tests.live.leftovers import nothing_left_over
from tests.live.runs import Outcome, complete, write_profile
from tests.testbed.traces.test_real_traces import data

pytestmark = pytest.mark.live

# a model of 24,360 bytes takes 0.2 s, or 0.8 s, or waits for the end of the outage
RATE = RateTrace([0, 2, 3.5], [1, 0, 0.25], 5)
THERE = AvailabilityTrace([0, 2], [1, 0], 3)
DELAY = 0.05


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    folder = tmp_path_factory.mktemp("traced")
    rate.write(folder / "rate.csv", RATE)
    availability.write(folder / "there.csv.gz", THERE)
    way = {"trace": "rate.csv", "delay": DELAY}
    groups = [
        {"profile": "rpi4", "name": "traced", "count": 2, "link": {"up": way, "down": way}},
        {"profile": "rpi4", "name": "shy", "link": "wifi", "availability": "there.csv.gz"},
    ]
    with nothing_left_over():
        yield complete(write_profile(folder, devices=groups, stop={"seconds": 15.0}))


def specs(outcome: Outcome) -> dict[str, DeviceSpec]:
    """From the stored profile: run again, it would be the same."""
    experiment = profile_loader.load(outcome.folder / "profile.toml")
    return {device.name: device for device in fleet.concrete(experiment, Survey())}


def line(outcome: Outcome, name: str) -> dict[str, object]:
    [found] = [row for row in outcome.json("fidelity.json")["invariants"] if row["name"] == name]
    return dict(found)


def test_transfers_take_what_the_integration_of_the_rate_says(outcome: Outcome) -> None:
    assert (outcome.code, outcome.stderr) == (0, "")
    devices, waited = specs(outcome), 0
    ways = [event for event in outcome.events if isinstance(event, trace.TransferEvent)]
    for event in ways:
        direction = devices[event.device].up
        if direction.trace is not None:
            assert direction.trace_offset is not None
            start = event.sent + direction.trace_offset
            assert event.asked == pytest.approx(RATE.when(start, event.bytes) - start + DELAY, abs=1e-6)
            waited += event.asked > 1.0
    assert waited > 2  # the outage is met
    assert len(ways) > 20


def off(outcome: Outcome) -> dict[tuple[str, str], float]:
    """By how much the bytes that passed are off what the trace has room for in the seconds that they took.

    Of a download by the device's clock, of an upload by the aggregator's.
    """
    devices, passed, room = specs(outcome), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    arrived = {event.ticket: event.t for event in outcome.of_kind(trace.Arrived)}
    for event in outcome.events:
        if isinstance(event, trace.Downloaded):
            kind, way, end = "down", devices[event.device].down, event.sent + event.obtained
        elif isinstance(event, trace.Uploaded) and event.ticket in arrived:
            kind, way, end = "up", devices[event.device].up, arrived[event.ticket]
        else:
            continue
        if way.trace is not None:
            assert way.trace_offset is not None
            link, place = rate.load(way.trace), way.trace_offset
            passed[event.device, kind] += event.bytes
            room[event.device, kind] += link.bytes_between(event.sent + place, end - way.delay + place)
    return {key: passed[key] / room[key] - 1 for key in passed}


def test_as_many_bytes_pass_as_the_trace_has_room_for(outcome: Outcome) -> None:
    found = off(outcome)
    assert len(found) == 4
    assert all(abs(each) < 0.03 for each in found.values()), found


def test_so_they_do_over_a_real_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(data("mahimahi", f"Verizon-LTE-short.{way}.gz")) for way in ("down", "up")]
    words = [files[0], "--up", files[1], "--delay", "0.02", "--out", str(tmp_path)]
    assert main.main(["trace", "import", "mahimahi", *words]) == 0
    group = {"profile": "rpi4", "count": 2, "link": "Verizon-LTE-short.toml"}
    changes = {"task": {"name": "digits", "model": "cnn"}, "stop": {"seconds": 20.0}}
    outcome = complete(write_profile(tmp_path, devices=[group], **changes))
    assert (outcome.code, outcome.stderr) == (0, "")
    found = off(outcome)
    assert len(found) == 4
    assert all(abs(each) < 0.03 for each in found.values()), found


def test_nothing_is_lost_and_nothing_comes_before_its_time(outcome: Outcome) -> None:
    """(Whether delays and steps were kept hangs on the host: the certificate says it, and a test cannot.)"""
    assert line(outcome, "causality")["verdict"] == line(outcome, "conservation")["verdict"] == "PASS"


def test_a_device_is_suspended_while_it_is_away_and_nothing_of_it_arrives_then(outcome: Outcome) -> None:
    shy = specs(outcome)["shy-1"]
    suspensions = outcome.of_kind(trace.Suspended)
    assert {event.device for event in suspensions} == {"shy-1"}
    assert len(suspensions) >= 4
    assert all(suspension.obtained >= suspension.asked - 1e-6 for suspension in suspensions[:-1])
    arrivals = [event.due for event in outcome.of_kind(trace.Arrived) if event.device == "shy-1"]
    assert len(arrivals) > 3
    for due in arrivals:
        gone, back = next(shy.absences(due))
        assert not gone + 1e-6 < due < back - 1e-6


def test_the_stored_profile_names_the_traces_by_their_full_paths(outcome: Outcome) -> None:
    devices = specs(outcome)
    assert Path(devices["traced-1"].up.trace or "").is_absolute()
    assert devices["shy-1"].availability == str(outcome.folder.parent.parent / "there.csv.gz")
    assert devices["traced-1"].up.trace_offset != devices["traced-2"].up.trace_offset
