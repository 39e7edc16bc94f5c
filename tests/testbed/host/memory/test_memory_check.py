"""A fleet that is too large for the memory or the open files of the host is refused before any process starts."""

from __future__ import annotations

import resource
from types import SimpleNamespace

import pytest

from testbed.common.errors import UserError
from testbed.host.memory.memory_check import bytes_needed, check_memory_and_files


def host(monkeypatch: pytest.MonkeyPatch, *, memory: int, soft: int = 1024, hard: int = 4096) -> list[tuple[int, int]]:
    """Pretend that the host has this free memory and these limits on files; returns the limits that are set later."""
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=memory))
    monkeypatch.setattr("resource.getrlimit", lambda what: (soft, hard))
    monkeypatch.setattr("resource.setrlimit", lambda what, limit: limits.append(limit))
    return limits


def test_a_fleet_that_needs_too_much_memory_is_refused_with_the_largest_possible_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host(monkeypatch, memory=1 << 30)
    with pytest.raises(
        UserError, match=r"10000 devices need about 126\.6 GB .* 1\.1 GB are free; use at most 27 devices"
    ):
        check_memory_and_files(10_000)
    with pytest.raises(UserError, match="use at most 27 devices"):
        check_memory_and_files(28)
    check_memory_and_files(27)


def test_a_host_without_memory_for_one_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    host(monkeypatch, memory=1 << 20)
    with pytest.raises(UserError, match="use at most 0 devices"):
        check_memory_and_files(1)


def test_a_fleet_that_needs_more_files_than_allowed_is_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = host(monkeypatch, memory=1 << 50)
    with pytest.raises(UserError, match="481 devices need 4104 open files, the limit is 4096; raise ulimit -n"):
        check_memory_and_files(481)
    assert limits == []


@pytest.mark.parametrize("hard", [4096, resource.RLIM_INFINITY])
def test_the_limit_on_open_files_is_raised_as_far_as_needed(monkeypatch: pytest.MonkeyPatch, hard: int) -> None:
    limits = host(monkeypatch, memory=1 << 50, hard=hard)
    check_memory_and_files(96)
    assert limits == []
    check_memory_and_files(480)
    assert limits == [(4096, hard)]


def test_devices_with_baselines_need_memory_for_three_more_vectors() -> None:
    assert bytes_needed(4, 1000, baselines=True) - bytes_needed(4, 1000) == 4 * 3 * 1000
    assert bytes_needed(4, 1000, kept_updates=True) - bytes_needed(4, 1000) == 4 * 2 * 1000


def test_measured_memory_replaces_the_estimate_and_includes_the_vectors_of_the_device() -> None:
    devices, model = 1000, 87_360
    measured = bytes_needed(devices, model, 10 << 20)
    assert measured < 16e9  # 1,000 devices of the 21,840-parameter CNN ran in 13.7 GB
    assert bytes_needed(devices, model, 20 << 20) - measured == devices * (10 << 20)
    assert bytes_needed(devices, model, 10 << 20) - bytes_needed(devices, 0, 10 << 20) == devices * 2 * model
    assert bytes_needed(devices, model) - bytes_needed(devices, 0) == devices * 6 * model
