from __future__ import annotations

from collections.abc import Iterable

import pytest

from aggregator.course.load import LoadMeter
from testbed.host.kernel import Usage


def meter(usages: Iterable[Usage | None] = (), pressures: Iterable[float | None] = ()) -> LoadMeter:
    """Begun at host second 100. What the kernel says is read at the start, and twice for each report."""
    usage, pressure = iter(usages), iter(pressures)
    return LoadMeter(100.0, lambda: next(usage, None), lambda: next(pressure, None))


def test_time_that_is_not_waiting_is_busy() -> None:
    load = meter()
    load.waited(0.5)
    load.waited(0.25)
    report = load.report(101.0, t=7.0)
    assert (report.t, report.span, report.busy) == (7.0, 1.0, 0.25)


def test_waiting_that_was_measured_too_long_makes_no_negative_busy_time() -> None:
    load = meter()
    load.waited(1.001)
    assert load.report(101.0, t=1.0).busy == 0.0


def test_service_is_counted_per_update() -> None:
    load = meter()
    for seconds in (0.125, 0.5, 0.25):
        load.served(seconds)
    report = load.report(101.0, t=1.0)
    assert (report.served, report.service, report.longest) == (3, 0.875, 0.5)


def test_each_report_starts_from_zero() -> None:
    load = meter()
    load.waited(0.5)
    load.served(0.25)
    load.report(101.0, t=1.0)
    report = load.report(103.0, t=3.0)
    assert (report.span, report.busy, report.served, report.service, report.longest) == (2.0, 2.0, 0, 0.0, 0.0)


@pytest.mark.parametrize(("now", "due"), [(100.0, False), (100.99, False), (101.0, True), (105.0, True)])
def test_a_report_is_due_after_a_second(now: float, due: bool) -> None:
    assert meter().is_due(now) is due


def test_the_next_report_is_due_a_second_after_the_last() -> None:
    load = meter()
    load.report(103.5, t=1.0)
    assert (load.is_due(104.25), load.is_due(104.5)) == (False, True)


def test_waiting_for_a_core_and_pressure_are_those_since_the_last_report() -> None:
    usages = [Usage(1.0, 2.0), Usage(1.5, 2.25), Usage(1.5, 2.25), Usage(1.5, 3.0)]
    load = meter(usages, [10.0, 10.5, 10.5, 12.5])
    first, second = load.report(102.0, t=2.0), load.report(106.0, t=6.0)
    assert (first.waited, first.pressure) == (0.25, 0.25)
    assert (second.waited, second.pressure) == (0.75, 0.5)


@pytest.mark.parametrize(
    ("usages", "pressures"), [([], []), ([None, Usage(1, 1)], [None, 1.0]), ([Usage(1, 1)], [1.0])]
)
def test_values_that_the_kernel_does_not_report_are_missing(
    usages: list[Usage | None], pressures: list[float | None]
) -> None:
    report = meter(usages, pressures).report(101.0, t=1.0)
    assert (report.waited, report.pressure) == (None, None)


def test_a_report_over_no_time_has_no_pressure() -> None:
    assert meter([], [1.0, 1.0]).report(100.0, t=0.0).pressure is None
