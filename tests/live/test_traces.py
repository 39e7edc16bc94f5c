"""A link whose rate follows a trace, and a device with absences: real processes."""

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
    link = {"trace": "rate.csv", "delay": DELAY}
    groups = [
        {"profile": "rpi4", "name": "traced", "count": 2, "link": {"up": link, "down": link}},
        {"profile": "rpi4", "name": "shy", "link": "wifi", "availability": "there.csv.gz"},
    ]
    with nothing_left_over():
        yield complete(write_profile(folder, devices=groups, stop={"seconds": 15.0}))


def specs(outcome: Outcome) -> dict[str, DeviceSpec]:
    """The devices of the stored profile."""
    experiment = profile_loader.load(outcome.folder / "profile.toml")
    return {device.name: device for device in fleet.concrete(experiment, Survey())}


def line(outcome: Outcome, name: str) -> dict[str, object]:
    [found] = [row for row in outcome.json("fidelity.json")["invariants"] if row["name"] == name]
    return dict(found)


def test_transfers_take_as_long_as_the_integrated_rate_says(outcome: Outcome) -> None:
    assert (outcome.code, outcome.stderr) == (0, "")
    devices, waited = specs(outcome), 0
    transfers = [event for event in outcome.events if isinstance(event, trace.TransferEvent)]
    for event in transfers:
        direction = devices[event.device].up
        if direction.trace is not None:
            assert direction.trace_offset is not None
            start = event.sent + direction.trace_offset
            assert event.asked == pytest.approx(RATE.when(start, event.bytes) - start + DELAY, abs=1e-6)
            waited += event.asked > 1.0
    assert waited > 2  # of the outage
    assert len(transfers) > 20


def off(outcome: Outcome) -> dict[tuple[str, str], float]:
    """The relative difference between the transferred bytes and the bytes that the trace allows in the same seconds.

    The seconds of a download are by the device's clock, those of an upload by the aggregator's.
    """
    devices, passed, allowed = specs(outcome), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    arrived = {event.ticket: event.t for event in outcome.of_kind(trace.Arrived)}
    for event in outcome.events:
        if isinstance(event, trace.Downloaded):
            kind, side, end = "down", devices[event.device].down, event.sent + event.obtained
        elif isinstance(event, trace.Uploaded) and event.ticket in arrived:
            kind, side, end = "up", devices[event.device].up, arrived[event.ticket]
        else:
            continue
        if side.trace is not None:
            assert side.trace_offset is not None
            link, place = rate.load(side.trace), side.trace_offset
            passed[event.device, kind] += event.bytes
            allowed[event.device, kind] += link.bytes_between(event.sent + place, end - side.delay + place)
    return {key: passed[key] / allowed[key] - 1 for key in passed}


@pytest.mark.timing
def test_as_many_bytes_pass_as_the_trace_allows(outcome: Outcome) -> None:
    found = off(outcome)
    assert len(found) == 4
    assert all(abs(each) < 0.03 for each in found.values()), found


@pytest.mark.timing
def test_as_many_bytes_pass_as_a_real_link_allows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(data("mahimahi", f"Verizon-LTE-short.{side}.gz")) for side in ("down", "up")]
    words = [files[0], "--up", files[1], "--delay", "0.02", "--out", str(tmp_path)]
    assert main.main(["trace", "import", "mahimahi", *words]) == 0
    group = {"profile": "rpi4", "count": 2, "link": "Verizon-LTE-short.toml"}
    changes = {"task": {"name": "digits", "model": "cnn"}, "stop": {"seconds": 20.0}}
    outcome = complete(write_profile(tmp_path, devices=[group], **changes))
    assert (outcome.code, outcome.stderr) == (0, "")
    found = off(outcome)
    assert len(found) == 4
    assert all(abs(each) < 0.03 for each in found.values()), found


def test_no_ticket_is_lost_and_no_update_is_early(outcome: Outcome) -> None:
    """(Whether delays and steps were exact depends on the host, so a test cannot require it.)"""
    assert line(outcome, "causality")["verdict"] == line(outcome, "conservation")["verdict"] == "PASS"


def test_a_device_is_suspended_during_its_absence_and_no_update_of_it_arrives_then(outcome: Outcome) -> None:
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
