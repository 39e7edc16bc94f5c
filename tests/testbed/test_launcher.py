"""What the launcher checks and prepares before it starts anybody. Real processes are in tests/live."""

from __future__ import annotations

import resource
import stat
from types import SimpleNamespace

import pytest

from testbed import launcher
from testbed.errors import UserError


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
        launcher.check_room(10_000)
    with pytest.raises(UserError, match="use at most 10 devices"):
        launcher.check_room(11)
    launcher.check_room(10)


def test_a_host_without_room_for_anybody_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    host(monkeypatch, memory=1 << 20)
    with pytest.raises(UserError, match="use at most 0 devices"):
        launcher.check_room(1)


def test_a_fleet_that_needs_more_files_than_allowed_is_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = host(monkeypatch, memory=1 << 50)
    with pytest.raises(UserError, match="481 devices need 4104 open files, the limit is 4096; raise ulimit -n"):
        launcher.check_room(481)
    assert limits == []


@pytest.mark.parametrize("hard", [4096, resource.RLIM_INFINITY])
def test_the_limit_of_open_files_is_raised_as_far_as_needed(monkeypatch: pytest.MonkeyPatch, hard: int) -> None:
    limits = host(monkeypatch, memory=1 << 50, hard=hard)
    launcher.check_room(96)
    assert limits == []
    launcher.check_room(480)
    assert limits == [(4096, hard)]


def test_the_private_folder_is_private_short_and_gone_at_the_end() -> None:
    with launcher.private_folder() as place:
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        assert len(str(place / "hub")) < 100
        (place / "hub").touch()
    assert not place.exists()


def test_the_private_folder_is_short_where_the_temporary_folder_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    deep = tmp_path_factory.mktemp("x" * 100)
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with launcher.private_folder() as place:
        assert len(str(place / "hub")) < 100
    assert list(deep.iterdir()) == []
