"""The fault timetable: each draw is fixed by its address, and the shares are those of the profile."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from testbed.emulation.faults import SeededTimetable, TransferFate

BASE = SeededTimetable(seed=1, device=0, download_drop=0.3, upload_drop=0.3, suspend=0.3, suspend_max=4.0)
ADDRESSES = [(job, attempt) for job in range(20) for attempt in range(3)]


def other(**changes: Any) -> SeededTimetable:
    return dataclasses.replace(BASE, **changes)


def test_the_same_address_has_the_same_fate_in_any_order_of_calls() -> None:
    forward = [(BASE.download(*a), BASE.upload(*a), BASE.suspension(a[0])) for a in ADDRESSES]
    again = other()
    backward = [(again.download(*a), again.upload(*a), again.suspension(a[0])) for a in reversed(ADDRESSES)]
    assert forward == backward[::-1]


def test_every_address_has_its_own_fate() -> None:
    fates = [
        table.download(job, attempt)
        for table in (BASE, other(device=1), other(seed=2))
        for job, attempt in [*ADDRESSES, (2**40, 0), (0, 2**40)]
    ]
    fates += [BASE.upload(job, attempt) for job, attempt in ADDRESSES]
    assert len(set(fates)) == 3 * 62 + 60


def test_seed_and_device_are_not_interchangeable() -> None:
    assert other(seed=1, device=2).upload(0, 0) != other(seed=2, device=1).upload(0, 0)


def test_the_largest_seed_a_profile_allows_has_a_timetable() -> None:
    assert other(seed=2**63 - 1).upload(0, 0) != BASE.upload(0, 0)


# 2,000 draws at 0.3: mean 600, σ = √(2000·0.3·0.7) = 20.49; 99 % lie within ± 2.576 σ = ± 52.8
FEWEST, MOST = 548, 652


def test_drops_have_the_share_of_the_profile() -> None:
    assert FEWEST <= sum(BASE.download(job, 0).dropped for job in range(2000)) <= MOST
    assert FEWEST <= sum(BASE.upload(job, 0).dropped for job in range(2000)) <= MOST
    assert FEWEST <= sum(BASE.upload(0, attempt).dropped for attempt in range(2000)) <= MOST


def test_suspensions_have_the_share_of_the_profile() -> None:
    assert FEWEST <= sum(BASE.suspension(job) is not None for job in range(2000)) <= MOST


def test_noise_is_standard_normal() -> None:
    fates = [BASE.upload(job, 0) for job in range(2000)]
    for noise in ([fate.delay_noise for fate in fates], [fate.rate_noise for fate in fates]):
        mean = sum(noise) / 2000
        assert abs(mean) < 2.576 / 2000**0.5
        # the variance of 2,000 normal draws has σ = √(2/2000)
        assert abs(sum((x - mean) ** 2 for x in noise) / 2000 - 1) < 2.576 * (2 / 2000) ** 0.5


def test_a_transfer_dropped_at_a_low_probability_is_dropped_at_a_higher_one() -> None:
    rare = {job for job in range(300) if other(upload_drop=0.1).upload(job, 0).dropped}
    often = {job for job in range(300) if BASE.upload(job, 0).dropped}
    assert rare < often


def test_the_drop_probability_does_not_change_the_noise() -> None:
    plain, dropping = other(upload_drop=0.0).upload(4, 1), other(upload_drop=0.999).upload(4, 1)
    assert (plain.delay_noise, plain.rate_noise) == (dropping.delay_noise, dropping.rate_noise)


def test_a_link_without_drops_and_noise_is_smooth() -> None:
    smooth = TransferFate(dropped=False, delay_noise=0.0, rate_noise=0.0)
    table = other(download_drop=0.0, upload_drop=0.0, noisy_download=False, noisy_upload=False)
    assert {table.download(*a) for a in ADDRESSES} == {table.upload(*a) for a in ADDRESSES} == {smooth}


def test_a_smooth_direction_does_not_change_the_other_one() -> None:
    table = other(download_drop=0.0, noisy_download=False)
    assert [table.upload(*a) for a in ADDRESSES] == [BASE.upload(*a) for a in ADDRESSES]
    assert [table.suspension(job) for job in range(50)] == [BASE.suspension(job) for job in range(50)]


def test_a_direction_without_noise_still_drops_the_same_transfers() -> None:
    table = other(noisy_upload=False)
    assert [table.upload(*a).dropped for a in ADDRESSES] == [BASE.upload(*a).dropped for a in ADDRESSES]


def test_a_suspension_lies_within_the_job_and_within_its_maximum() -> None:
    suspensions = [other(suspend=1.0).suspension(job) for job in range(500)]
    assert all(s is not None and 0 <= s.at < 1 and 0 <= s.seconds <= 4.0 for s in suspensions)
    lengths = [s.seconds for s in suspensions if s is not None]
    # uniform from 0 to 4: mean 2, σ of the mean of 500 = 4/√12/√500
    assert sum(lengths) / 500 == pytest.approx(2.0, abs=2.576 * 4 / 12**0.5 / 500**0.5)


def test_a_device_with_suspension_probability_0_is_never_suspended() -> None:
    assert all(other(suspend=0.0).suspension(job) is None for job in range(100))
