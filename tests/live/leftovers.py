"""Finds what a run has left behind: processes, folders with sockets, shared memory."""

from __future__ import annotations

import contextlib
import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

_MARK = "EDGEBED_TEST_RUN"
_LAST_SECONDS = 15.0
_SHARED_MEMORY = Path("/dev/shm")


@contextlib.contextmanager
def nothing_left_over() -> Iterator[None]:
    """Fail if a run that starts in this block leaves processes, files or shared memory behind.

    A variable in the environment marks its processes, even those that lost their parent, and it has a temporary folder
    of its own: so other runs on the same host do not matter.
    """
    mark, shared = uuid.uuid4().hex, set(os.listdir(_SHARED_MEMORY))
    # directly below the usual folder: the path of a unix socket must be short
    with tempfile.TemporaryDirectory(prefix="live-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv(_MARK, mark)
        patch.setenv("TMPDIR", folder)
        yield
        processes = _end_leftovers(mark)
        assert not processes, f"processes were left over: {processes}"
        left = [str(path.relative_to(folder)) for path in Path(folder).rglob("*")]
        assert left == [], f"the temporary folder was not cleaned up: {left}"
        assert set(os.listdir(_SHARED_MEMORY)) <= shared, "shared memory was left over"


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
