"""What a forked process takes over from its launcher."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import pytest

from testbed.common.finders import user_modules
from testbed.common.finders.user_modules import UserModules
from testbed.host import surroundings
from testbed.host.surroundings import Surroundings


def test_a_folder_whose_name_is_not_utf_8_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    monkeypatch.setattr(user_modules, "FINDER", UserModules())
    user_modules.FINDER.search_in(folder, tmp_path)
    message = msgspec.msgpack.encode(surroundings.of_this_process({}))
    path = list(sys.path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(user_modules, "FINDER", UserModules())
    msgspec.msgpack.decode(message, type=Surroundings).take_over()
    assert Path.cwd() == folder
    assert str(folder) in sys.path
    assert [*filter(None, path)] == sys.path
    assert user_modules.FINDER.folders == (str(folder), str(tmp_path))


def test_a_working_folder_that_was_removed_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "removed"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert surroundings.of_this_process({}).folder == b""
