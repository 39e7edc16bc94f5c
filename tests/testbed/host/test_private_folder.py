"""The private folder of a run, and its removal by another process if the launcher died."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from testbed.host import private_folder as private_folder_module
from testbed.host.private_folder import private_folder


def test_the_private_folder_has_mode_0700_and_a_short_path_and_is_removed_at_the_end() -> None:
    with private_folder() as place:
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        assert len(str(place / "hub")) < 100
        (place / "hub").touch()
    assert not place.exists()


def test_the_private_folder_has_a_short_path_even_if_the_temporary_folder_has_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    deep = tmp_path_factory.mktemp("x" * 100)
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with private_folder() as place:
        assert len(str(place / "hub")) < 100
    assert list(deep.iterdir()) == []


def test_the_folder_of_a_killed_run_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("testbed.host.private_folder._LONGEST_FOLDER", 1000)
    dead = subprocess.Popen(["true"])
    dead.wait()
    stale, alive, strange = (tmp_path / f"edgebed-{pid}-x" for pid in (dead.pid, os.getpid(), "y"))
    for folder in (stale, alive, strange):
        folder.mkdir()
        (folder / "hub").touch()
    with private_folder():
        assert [folder.exists() for folder in (stale, alive, strange)] == [False, True, True]


def test_a_folder_is_removed_by_another_process_only_if_its_owner_died_while_it_was_in_use(tmp_path: Path) -> None:
    place = tmp_path / "edgebed-1-x"
    place.mkdir()
    with private_folder_module.in_use(place):
        pass
    private_folder_module.remove_abandoned(place)
    assert place.exists()
    with private_folder_module.in_use(place):
        private_folder_module.remove_abandoned(place)
        assert not place.exists()


def test_all_folders_of_a_dead_process_are_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("testbed.host.private_folder._LONGEST_FOLDER", 1000)
    mine, other = tmp_path / "edgebed-12-x", tmp_path / "edgebed-123-x"
    for place in (mine, other):
        place.mkdir()
        (place / "in-use").touch()
    private_folder_module.remove_abandoned_by(12)
    assert (mine.exists(), other.exists()) == (False, True)
