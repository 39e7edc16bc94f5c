"""An audit hook cannot be removed, so each test has an interpreter of its own."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]


def unchanged(folder: Path, then: str = "", meanwhile: str = "") -> bool:
    """Read a file and a module, execute ``then``, and tell whether both are unchanged.

    ``meanwhile`` is executed before the files are asked for.
    """
    (folder / "data.txt").write_text("one", encoding="utf-8")
    (folder / "users_module.py").write_text("", encoding="utf-8")
    code = f"""
import sys
from pathlib import Path
sys.path.append({str(folder)!r})
from testbed.common.files.opened_files import OpenedFiles
opened = OpenedFiles()
folder = Path({str(folder)!r})
(folder / "before.txt").write_text("x")
(folder / "before.txt").read_text()
with opened.noted():
    (folder / "data.txt").read_text()
    (folder / "written.txt").write_text("x")
    (folder / "temporary.txt").write_text("x")
    (folder / "temporary.txt").read_text()
    import users_module
(folder / "temporary.txt").unlink()
{meanwhile}
marks = opened.marks()
{then}
sys.exit(0 if marks.are_unchanged() else 3)
"""
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60, check=False).returncode == 0


def test_files_that_were_written_or_removed_or_read_at_other_times_do_not_count(tmp_path: Path) -> None:
    assert unchanged(tmp_path, "(folder / 'written.txt').write_text('yy'); (folder / 'before.txt').unlink()")


def test_a_file_that_was_read_and_changed_is_found(tmp_path: Path) -> None:
    assert not unchanged(tmp_path, "(folder / 'data.txt').write_text('other')")


def test_a_module_that_was_imported_and_changed_is_found(tmp_path: Path) -> None:
    assert not unchanged(tmp_path, "(folder / 'users_module.py').write_text('x = 1')")


def test_a_module_that_was_imported_from_its_compiled_file_and_changed_at_once_is_found(tmp_path: Path) -> None:
    (tmp_path / "users_module.py").write_text("", encoding="utf-8")
    py_compile.compile(str(tmp_path / "users_module.py"))
    assert unchanged(tmp_path)
    assert not unchanged(tmp_path, meanwhile="(folder / 'users_module.py').write_text('x = 1')")


def test_a_name_that_is_not_utf_8_can_be_sent(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    then = "import msgspec; marks = msgspec.msgpack.decode(msgspec.msgpack.encode(marks), type=type(marks))"
    assert unchanged(folder, then)
