"""A fleet that the host has no room for is refused before anybody is started."""

from __future__ import annotations

import resource
from types import SimpleNamespace

import pytest

from testbed.common.errors import UserError
from testbed.host.capacity import bytes_needed, check_capacity


def host(monkeypatch: pytest.MonkeyPatch, *, memory: int, soft: int = 1024, hard: int = 4096) -> list[tuple[int, int]]:
    """A host with so much free memory and so many open files; gives the limits that are set on it."""
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=memory))
    monkeypatch.setattr("resource.getrlimit", lambda what: (soft, hard))
    monkeypatch.setattr("resource.setrlimit", lambda what, limit: limits.append(limit))
    return limits


def test_a_fleet_that_memory_has_no_room_for_is_refused_with_one_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    host(monkeypatch, memory=1 << 30)
    with pytest.raises(
        UserError, match=r"10000 devices need about 315\.3 GB .* 1\.1 GB are free; use at most 10 devices"
    ):
        check_capacity(10_000)
    with pytest.raises(UserError, match="use at most 10 devices"):
        check_capacity(11)
    check_capacity(10)


def test_a_host_without_room_for_anybody_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    host(monkeypatch, memory=1 << 20)
    with pytest.raises(UserError, match="use at most 0 devices"):
        check_capacity(1)


def test_a_fleet_that_needs_more_files_than_allowed_is_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = host(monkeypatch, memory=1 << 50)
    with pytest.raises(UserError, match="481 devices need 4104 open files, the limit is 4096; raise ulimit -n"):
        check_capacity(481)
    assert limits == []


@pytest.mark.parametrize("hard", [4096, resource.RLIM_INFINITY])
def test_the_limit_of_open_files_is_raised_as_far_as_needed(monkeypatch: pytest.MonkeyPatch, hard: int) -> None:
    limits = host(monkeypatch, memory=1 << 50, hard=hard)
    check_capacity(96)
    assert limits == []
    check_capacity(480)
    assert limits == [(4096, hard)]


def test_devices_that_upload_differences_need_room_for_three_more_vectors() -> None:
    assert bytes_needed(4, 1000, differences=True) - bytes_needed(4, 1000) == 4 * 3 * 1000
