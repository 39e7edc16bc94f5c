"""What counts as the own time of a process, with made-up figures of the kernel."""

from __future__ import annotations

import pytest

from testbed.host.kernel import Usage
from testbed.host.own_time import OwnTimeMeter


class Kernel:
    """What the kernel reports about a process."""

    def __init__(self) -> None:
        self.cpu = self.waited = 0.0
        self.state = b"S"
        self.counts = True

    def usage(self) -> Usage | None:
        return Usage(self.cpu, self.waited) if self.counts else None


def meter_of(kernel: Kernel) -> OwnTimeMeter:
    meter = OwnTimeMeter(1, kernel.usage, lambda pid: kernel.state)
    assert meter.seconds(100.0) == 0.0
    return meter


def test_computing_and_sleeping_count_and_waiting_for_a_core_does_not() -> None:
    kernel = Kernel()
    meter = meter_of(kernel)
    kernel.cpu, kernel.waited = 0.1, 0.25
    assert meter.seconds(100.5) == pytest.approx(0.25)
    assert meter.seconds(100.75) == pytest.approx(0.25)


def test_a_process_that_waits_for_a_core_at_this_moment_has_not_slept() -> None:
    """The kernel adds the time to its figures when the process gets the core."""
    kernel = Kernel()
    meter = meter_of(kernel)
    kernel.state = b"R"
    assert [meter.seconds(moment) for moment in (105.0, 110.0, 115.0)] == [0.0, 0.0, 0.0]
    kernel.waited, kernel.cpu = 15.0, 0.2
    assert meter.seconds(115.25) == pytest.approx(0.2)


@pytest.mark.parametrize("state", [b"T", b"t", b"D", b""])
def test_a_process_that_is_stopped_or_waits_for_a_disk_takes_no_time(state: bytes) -> None:
    kernel = Kernel()
    meter = meter_of(kernel)
    kernel.state = state
    assert meter.seconds(100.25) == 0.0


def test_a_pause_of_the_whole_host_counts_as_a_second_at_most() -> None:
    meter = meter_of(Kernel())
    assert meter.seconds(5000.0) == 1.0


def test_all_of_the_computing_counts_however_seldom_somebody_looks() -> None:
    """The launcher has the lowest priority on the core on which a strategy computes."""
    kernel = Kernel()
    meter = meter_of(kernel)
    kernel.state, kernel.cpu = b"R", 29.5
    assert meter.seconds(130.0) == pytest.approx(29.5)


def test_without_figures_of_the_kernel_the_clock_counts() -> None:
    kernel = Kernel()
    kernel.counts = False
    meter = meter_of(kernel)
    assert (meter.seconds(100.25), meter.seconds(200.0)) == (0.25, 1.0)
    kernel.state = b"T"
    assert meter.seconds(200.25) == 0.0
