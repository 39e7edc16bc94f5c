from __future__ import annotations

from pathlib import Path

import pytest

from testbed.learning.data import folders


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the user's cache and data, the data of the system, and the network from all tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(folders.FOLDER, raising=False)
    monkeypatch.setenv(folders.OFFLINE, "1")
    monkeypatch.setattr(folders, "SYSTEM", tmp_path / "system")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that --data-dir names."""
    path = tmp_path / "given"
    path.mkdir()
    return path
