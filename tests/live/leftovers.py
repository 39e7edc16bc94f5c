"""Finds what a run has left behind: processes and folders with sockets.

It looks only at what the processes of this test made: other programs of the host, and other runs, do not matter. A
variable in the environment marks its processes, even those that lost their parent, and they have a temporary folder of
their own. What was forked from the templates that runs of this worker share is found by the mark of these. A run must
not use named shared memory at all, since nobody could tell whose a segment is once the process that made it has died:
``named_shared_memory`` looks for it while the process lives.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.live import shared_templates
from tests.threads import ONE_THREAD

_MARK = "EDGEBED_TEST_RUN"
_LAST_SECONDS = 60.0
"""Host seconds for processes that are about to end: a crowded host needs some, and a test that passes none of them."""
_LOOK_SECONDS = 0.02
_SHARED_MEMORY = "/dev/shm/"
_LONGEST_FOLDER = 15
"""The path of a Unix socket must be short: below a folder with a longer path, /tmp is used."""


@contextlib.contextmanager
def nothing_left_over() -> Iterator[None]:
    """Fail if a run that starts in this block leaves processes or files in its temporary folder behind."""
    mark = uuid.uuid4().hex
    usual = tempfile.gettempdir()
    base = usual if len(usual) <= _LONGEST_FOLDER else "/tmp"
    folder = _temporary_folder(base)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(_MARK, mark)
        patch.setenv("TMPDIR", str(folder))
        for name in ONE_THREAD:  # a run must set them itself
            patch.delenv(name, raising=False)
        try:
            yield
        finally:
            processes = _end_leftovers(mark)
            left = _left_in(folder)
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        assert not processes, f"processes were left over: {processes}"
        assert left == [], f"the temporary folder was not cleaned up: {left}"


def _left_in(folder: Path) -> list[str]:
    """What is in the folder, after some seconds for the root template, which removes what a killed launcher left."""
    limit = time.monotonic() + _LAST_SECONDS
    while (left := [str(path.relative_to(folder)) for path in folder.rglob("*")]) and time.monotonic() < limit:
        time.sleep(_LOOK_SECONDS)
    return left


@functools.cache
def _temporary_folder(base: str) -> Path:
    """One for all tests of this worker, since templates that were started with another one cannot be shared."""
    folder = tempfile.mkdtemp(prefix="live-", dir=base)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def named_shared_memory(process: psutil.Process) -> list[str]:
    """Return the segments of shared memory with a name that a process has mapped or opened."""
    maps = Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8").splitlines()
    mapped = {line.split(maxsplit=5)[-1] for line in maps if _SHARED_MEMORY in line}
    for file in Path(f"/proc/{process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            mapped.add(str(file.readlink()))
    return sorted(path for path in mapped if path.startswith(_SHARED_MEMORY))


def _end_leftovers(mark: str) -> list[str]:
    """Processes that outlived the run by some seconds. They are killed, so that they do not disturb the next test."""
    found = [process for process in psutil.process_iter() if shared_templates.has_variable(process, _MARK, mark)]
    found += shared_templates.processes()
    _, alive = psutil.wait_procs(found, timeout=_LAST_SECONDS)
    left = []
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            left.append(f"{process.pid}: {' '.join(process.cmdline())}")
            process.kill()
    return left
