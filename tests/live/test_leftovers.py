"""The check that all live tests use can fail."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import psutil
import pytest

from tests.live import leftovers

CHILD = "import tempfile, time; print(tempfile.mkdtemp(prefix='edgebed-'), flush=True); {}"


def start(then: str) -> subprocess.Popen[str]:
    """Start a process that makes a temporary folder, prints its name and then executes ``then``."""
    process = subprocess.Popen([sys.executable, "-c", CHILD.format(then)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    assert folder.is_dir()
    assert folder.parent != Path(tempfile.gettempdir())
    return process


def test_a_process_that_is_left_over_is_found_and_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "_LAST_SECONDS", 0.01)
    with pytest.raises(AssertionError, match="processes"), leftovers.nothing_left_over():
        process = start("time.sleep(600)")
    with process:
        assert process.wait(120) == -9


def test_a_folder_that_is_left_over_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "_LAST_SECONDS", 0.01)
    with pytest.raises(AssertionError, match="folder"), leftovers.nothing_left_over(), start("pass") as process:
        assert process.wait(120) == 0


def test_shared_memory_with_a_name_is_found_in_the_process_that_has_it() -> None:
    own = psutil.Process()
    assert leftovers.named_shared_memory(own) == []
    segment = SharedMemory(create=True, size=4096)
    try:
        assert leftovers.named_shared_memory(own) == [f"/dev/shm/{segment.name}"]
    finally:
        segment.close()
        segment.unlink()
    assert leftovers.named_shared_memory(own) == []
