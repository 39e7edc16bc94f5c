from __future__ import annotations

import pytest

from devices.link import transfer
from testbed.emulation.faults import TransferFate
from testbed.profile.schema import Direction


def fate(*, delay: float = 0.0, rate: float = 0.0, dropped: bool = False) -> TransferFate:
    return TransferFate(dropped=dropped, delay_noise=delay, rate_noise=rate)


def test_a_transfer_takes_the_delay_and_bytes_over_rate() -> None:
    # 250,000 bytes are 2,000,000 bits; at 8 Mbit/s that is 0.25 s
    result = transfer(Direction(mbit=8, delay=0.125), 250_000, fate(), now=10.0)
    assert result.asked == pytest.approx(0.375)
    assert (result.started, result.bytes) == (10.0, 250_000)
    assert result.due == pytest.approx(10.375)


def test_the_rate_noise_scales_only_the_part_that_depends_on_the_bytes() -> None:
    # factor 1 + 0.2 · (−1.5) = 0.7
    result = transfer(Direction(mbit=8, delay=0.125, spread=0.2), 250_000, fate(rate=-1.5), now=0.0)
    assert result.asked == pytest.approx(0.125 + 0.7 * 0.25)


@pytest.mark.parametrize("noise", [-2.0, 2.0])
def test_jitter_only_adds(noise: float) -> None:
    result = transfer(Direction(delay=0.5, jitter=0.25), 1000, fate(delay=noise), now=0.0)
    assert result.asked == 0.5 + 2.0 * 0.25


@pytest.mark.parametrize("noise", [-0.95, -1.0, -50.0])
def test_a_transfer_never_takes_less_than_a_tenth_of_bytes_over_rate(noise: float) -> None:
    result = transfer(Direction(mbit=8, spread=1.0), 1_000_000, fate(rate=noise), now=0.0)
    assert result.asked == pytest.approx(0.1)


def test_without_a_rate_the_size_does_not_matter() -> None:
    link = Direction(delay=0.5, spread=1.0)
    assert transfer(link, 10, fate(rate=3.0), now=0.0) == transfer(link, 10, fate(rate=-3.0), now=0.0)
    assert transfer(link, 10**9, fate(), now=0.0).asked == 0.5


def test_a_lost_transfer_takes_as_long_as_one_that_arrives() -> None:
    link = Direction(mbit=1, delay=0.1, jitter=0.1, spread=0.5)
    lost = transfer(link, 5000, fate(delay=1.0, rate=1.0, dropped=True), now=3.0)
    arrived = transfer(link, 5000, fate(delay=1.0, rate=1.0), now=3.0)
    assert (lost.due, lost.asked) == (arrived.due, arrived.asked)
    assert (lost.dropped, arrived.dropped) == (True, False)
