"""The final model: a Train without a job, which ends all work."""

from __future__ import annotations

import pytest

from testbed.emulation.faults import PlannedSuspension
from testbed.wire.messages import Heartbeat
from tests.devices.parts import LOST, Bench, FixedTimetable


def status(heartbeat: Heartbeat) -> tuple[str, int, int]:
    return heartbeat.state, heartbeat.ticket, heartbeat.finished


def test_an_idle_device_downloads_it_and_the_next_heartbeat_reports_it() -> None:
    bench = Bench()
    bench.final(5, at=1.0)
    assert status(bench.device.heartbeat()) == ("downloading", 5, 0)
    bench.run_until(1.25)
    assert status(bench.device.heartbeat()) == ("idle", 0, 5)
    [event] = bench.of_kind("downloaded")
    assert (event.ticket, event.bytes, event.dropped) == (5, 16, False)
    assert (event.sent, event.obtained) == (1.0, 0.25)
    assert (bench.training.begun, bench.device.due()) == ([], float("inf"))


def test_a_busy_device_abandons_its_work_when_it_is_downloaded() -> None:
    bench = Bench()
    bench.train(1, at=1.0)
    bench.final(2, at=2.0)
    bench.run_until(2.125)
    assert status(bench.device.heartbeat()) == ("training", 2, 0)  # the old work continues until then
    bench.run_until(20.0)
    [abandoned] = bench.of_kind("abandoned")
    assert (abandoned.t, abandoned.ticket, abandoned.seconds) == (2.25, 1, 1.0)
    assert bench.training.closed == [0]
    assert status(bench.device.heartbeat()) == ("idle", 0, 2)
    assert (bench.delivered, bench.device.due()) == ([], float("inf"))


def test_a_device_in_its_upload_abandons_the_upload() -> None:
    bench = Bench()
    bench.train(1, at=1.0)
    bench.final(2, at=3.375)  # downloaded at 3.625; the upload would end at 3.75
    bench.run_until(20.0)
    [abandoned] = bench.of_kind("abandoned")
    assert (abandoned.t, abandoned.ticket, abandoned.seconds) == (3.625, 1, 2.0)
    assert (bench.delivered, bench.of_kind("uploaded")) == ([], [])
    assert status(bench.device.heartbeat()) == ("idle", 0, 2)


def test_an_upload_that_ends_before_it_is_downloaded_is_delivered() -> None:
    bench = Bench()
    bench.train(1, at=1.0)
    bench.final(2, at=3.625)
    bench.run_until(20.0)
    assert bench.deliveries == [(1, 3.75)]
    assert bench.of_kind("abandoned") == []
    assert status(bench.device.heartbeat()) == ("idle", 0, 2)


def test_an_upload_that_waits_for_its_tick_is_abandoned_too() -> None:
    bench = Bench(FixedTimetable(uploads={(0, 0): LOST}), on_drop="next_tick")
    bench.train(1, at=1.0)  # its upload is lost at 3.75 and would be tried again at 4.0
    bench.final(2, at=3.6875)
    bench.run_until(20.0)
    assert [event.ticket for event in bench.of_kind("abandoned")] == [1]
    assert (bench.delivered, len(bench.of_kind("uploaded"))) == ([], 1)
    assert status(bench.device.heartbeat()) == ("idle", 0, 2)


@pytest.mark.parametrize("how", ["wait", "old_base"])
def test_a_device_whose_download_of_it_is_dropped_has_not_finished(how: str) -> None:
    bench = Bench(FixedTimetable(downloads={(1, 0): LOST}), on_lost_download=how)
    bench.train(1)
    bench.final(2, at=5.0)
    bench.run_until(6.0)
    assert status(bench.device.heartbeat()) == ("idle", 0, 1)
    bench.final(2)  # a resend
    bench.run_until(7.0)
    assert status(bench.device.heartbeat()) == ("idle", 0, 2)
    transfers = [(event.ticket, event.attempt, event.dropped) for event in bench.of_kind("downloaded")]
    assert transfers == [(1, 0, False), (2, 0, True), (2, 1, False)]


def test_a_busy_device_whose_download_of_it_is_dropped_continues_its_work() -> None:
    bench = Bench(FixedTimetable(downloads={(1, 0): LOST}))
    bench.train(1, at=1.0)
    bench.final(2, at=2.0)
    bench.run_until(3.0)
    assert status(bench.device.heartbeat()) == ("training", 1, 0)
    bench.run_until(20.0)
    assert bench.deliveries == [(1, 3.75)]
    assert bench.of_kind("abandoned") == []


def test_a_suspended_device_downloads_it_after_the_suspension() -> None:
    bench = Bench(FixedTimetable(suspensions={0: PlannedSuspension(at=0.5, seconds=3.0)}))
    bench.train(1, at=1.0)
    bench.final(2, at=3.0)  # the device is suspended from 2.25 to 5.25
    bench.run_until(5.0)
    assert status(bench.device.heartbeat()) == ("suspended", 2, 0)
    bench.run_until(20.0)
    assert [event.t for event in bench.of_kind("downloaded")] == [1.25, 5.5]
    assert [(event.t, event.ticket) for event in bench.of_kind("abandoned")] == [(5.5, 1)]
    assert status(bench.device.heartbeat()) == ("idle", 0, 2)


def test_it_is_not_downloaded_again_by_a_device_that_has_it() -> None:
    bench = Bench()
    bench.final(2)
    bench.final(2, at=1.0)
    bench.run_until(5.0)
    assert len(bench.of_kind("downloaded")) == 1
    assert (status(bench.device.heartbeat()), bench.device.heartbeat().trains) == (("idle", 0, 2), 2)


def test_a_device_that_has_it_has_nothing_to_report_at_the_end() -> None:
    bench = Bench()
    bench.train(1)
    bench.final(2, at=1.0)
    bench.run_until(5.0)
    bench.device.stop(5.0)
    assert bench.device.take_events() == ()
