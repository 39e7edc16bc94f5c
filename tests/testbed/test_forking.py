"""The private folder of a run. The forking itself is in tests/live."""

from __future__ import annotations

import stat

import pytest

from testbed.forking import private_folder


def test_the_private_folder_is_private_short_and_gone_at_the_end() -> None:
    with private_folder() as place:
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        assert len(str(place / "hub")) < 100
        (place / "hub").touch()
    assert not place.exists()


def test_the_private_folder_is_short_where_the_temporary_folder_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    deep = tmp_path_factory.mktemp("x" * 100)
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with private_folder() as place:
        assert len(str(place / "hub")) < 100
    assert list(deep.iterdir()) == []
