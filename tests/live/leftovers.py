"""Finds what a run has left behind: processes and folders with sockets.

It looks only at what the processes of this test made: other programs of the host, and other runs, do not matter. A
variable in the environment marks its processes, even those that lost their parent, and they have a temporary folder of
their own. A run must not use named shared memory at all, since nobody could tell whose a segment is once the process
that made it has died: ``named_shared_memory`` looks for it while the process lives.
"""

from __future__ import annotations

import contextlib
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.threads import ONE_THREAD

_MARK = "EDGEBED_TEST_RUN"
_LAST_SECONDS = 60.0
"""Host seconds for processes that are about to end: a crowded host needs some, and a test that passes none of them."""
_SHARED_MEMORY = "/dev/shm/"
_LONGEST_FOLDER = 15
"""The path of a Unix socket must be short: below a folder with a longer path, /tmp is used."""


@contextlib.contextmanager
def nothing_left_over() -> Iterator[None]:
    """Fail if a run that starts in this block leaves processes or files in its temporary folder behind."""
    mark = uuid.uuid4().hex
    usual = tempfile.gettempdir()
    base = usual if len(usual) <= _LONGEST_FOLDER else "/tmp"
    with tempfile.TemporaryDirectory(prefix="live-", dir=base) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv(_MARK, mark)
        patch.setenv("TMPDIR", folder)
        for name in ONE_THREAD:  # a run must set them itself
            patch.delenv(name, raising=False)
        yield
        processes = _end_leftovers(mark)
        assert not processes, f"processes were left over: {processes}"
        left = [str(path.relative_to(folder)) for path in Path(folder).rglob("*")]
        assert left == [], f"the temporary folder was not cleaned up: {left}"


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
    found = [process for process in psutil.process_iter() if _belongs(process, mark)]
    _, alive = psutil.wait_procs(found, timeout=_LAST_SECONDS)
    left = []
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            left.append(f"{process.pid}: {' '.join(process.cmdline())}")
            process.kill()
    return left


def _belongs(process: psutil.Process, mark: str) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(_MARK) == mark
    except psutil.Error:
        return False  # it has ended, or belongs to another user
