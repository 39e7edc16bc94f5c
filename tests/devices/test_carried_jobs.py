"""A device keeps its last update for a clustering, and carries its job from one cluster head to the next.

A job of two steps that is sent at 0 is downloaded by 0.25, trained by 1.25 and uploaded by 1.75 (``parts.SPEC``).
"""

from __future__ import annotations

import pytest

from testbed.profile.schema import Direction
from testbed.wire.ticket_ranges import first_ticket
from tests.devices.parts import LOST, Bench, FixedTimetable

OLD, NEW = first_ticket(2) + 1, 3
"""A ticket of the former head, and the ticket range of the present one."""


def working(at: float, timetable: FixedTimetable | None = None, *, kept: bool = True, **changes: object) -> Bench:
    """Return a device that was sent a job of its former head at 0, at this moment."""
    bench = Bench(timetable, **changes)  # type: ignore[arg-type]
    bench.train(OLD, steps=2, kept=kept)
    bench.run_until(at)
    return bench


def carry(bench: Bench, *, own: bool = False) -> bool:
    bench.device.own_range = NEW if own else None
    carried = bench.device.carry(OLD, bench.now, own=own)
    bench.device.validate()
    return carried


@pytest.mark.parametrize("moment", [0.1, 0.5, 1.5])
def test_a_job_in_its_download_training_or_upload_continues_without_a_delay(moment: float) -> None:
    bench = working(moment)
    assert carry(bench)
    bench.run_until(5.0)
    assert bench.dues == [(OLD, 1.75)]
    assert len(bench.of_kind("trained")) == len(bench.of_kind("uploaded")) == 1


def test_an_update_that_the_former_head_has_got_is_uploaded_again() -> None:
    bench = working(3.0)
    assert carry(bench)
    assert bench.device.heartbeat_without_events().ticket == OLD
    bench.run_until(5.0)
    assert bench.dues == [(OLD, 1.75), (OLD, 3.5)]
    assert [(event.job, event.attempt, event.bytes) for event in bench.of_kind("uploaded")] == [(0, 0, 16), (0, 1, 16)]
    assert len(bench.of_kind("trained")) == 1
    assert carry(bench)  # once more, to a third head
    bench.run_until(8.0)
    assert bench.dues[2:] == [(OLD, 5.5)]


def test_an_update_on_its_way_to_the_former_head_is_sent_to_the_present_one() -> None:
    bench = working(1.7, lead=0.1)
    assert bench.deliveries == [(OLD, 1.65)]
    assert carry(bench)
    bench.run_until(5.0)
    assert bench.dues == [(OLD, 1.75)] * 2
    assert len(bench.of_kind("uploaded")) == 1


def test_the_lost_upload_of_a_carried_update_is_tried_again() -> None:
    bench = working(3.0, FixedTimetable(uploads={(0, 1): LOST}))
    assert carry(bench)
    bench.run_until(5.0)
    assert bench.dues == [(OLD, 1.75), (OLD, 4.0)]


def test_a_device_that_becomes_the_head_itself_needs_no_link_for_its_update() -> None:
    for moment, due in ((0.5, 1.25), (1.5, 1.5), (3.0, 3.0)):
        bench = working(moment)
        assert carry(bench, own=True)
        bench.run_until(5.0)
        assert bench.dues[-1] == (OLD, due)
        assert len(bench.of_kind("uploaded")) == (moment == 3.0)  # only that to the former head


def test_a_new_head_does_not_wait_for_a_download_that_nobody_could_send_again() -> None:
    assert not carry(working(0.1), own=True)


def test_a_job_that_the_device_does_not_have_is_not_carried() -> None:
    assert not carry(working(3.0, kept=False))
    bench = working(3.0)
    bench.train(OLD + 1, steps=2, kept=True)
    bench.run_until(3.5)
    assert not carry(bench)  # it works on a later one
    assert not carry(working(0.5, FixedTimetable(downloads={(0, 0): LOST})))


def test_the_gradient_of_a_device_is_the_last_update_that_it_has_computed() -> None:
    bench = working(1.0)
    assert bench.device.gradient is None
    bench.run_until(1.5)
    assert bench.device.gradient is not None
    assert bench.device.gradient.ticket == OLD  # in its upload
    bench.run_until(3.0)
    bench.train(OLD + 1, steps=2, version=8, kept=True)
    bench.run_until(4.0)
    assert bench.device.gradient.version == 7  # it trains the next one
    bench.run_until(4.5)
    gradient = bench.device.gradient
    assert gradient is not None
    assert (gradient.ticket, gradient.version, gradient.delta.tolist()) == (OLD + 1, 8, [1.0] * 4)


def test_the_update_of_a_job_that_was_replaced_in_its_upload_is_a_gradient_too() -> None:
    bench = working(1.4)
    bench.train(OLD + 1, steps=2, kept=True)
    bench.run_until(1.7)
    assert bench.device.gradient is not None
    assert (bench.device.gradient.ticket, bench.deliveries) == (OLD, [])


def test_a_device_keeps_no_update_that_nobody_will_ask_for() -> None:
    bench = working(3.0, kept=False)
    assert bench.device.gradient is None


@pytest.mark.parametrize(("moment", "due"), [(1.2, 1.75), (3.0, 3.5)])
def test_the_update_of_a_former_head_for_itself_is_uploaded_to_the_present_head(moment: float, due: float) -> None:
    """At 1.2 it has been prepared, and handed to the head on the device, but its computing ends at 1.25."""
    bench = Bench(lead=0.1, down=Direction())
    bench.device.own_range = 2
    bench.train(OLD, steps=2, sent=0.25, at=0.25, kept=True)
    bench.run_until(moment)
    assert len(bench.deliveries) == 1
    assert carry(bench)
    bench.run_until(5.0)
    assert bench.dues == [(OLD, 1.25), (OLD, due)]
    assert [(event.attempt, event.bytes) for event in bench.of_kind("uploaded")] == [(0, 16)]
