"""The private folder of a run: its sockets and its status file. No other user can open it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

_PREFIX = "edgebed-"
_LONGEST_FOLDER = 60
"""The path of a unix socket has at most 107 bytes."""
_IN_USE = "in-use"
_ATTEMPTS = 100
"""The aggregator outlives the launcher for a moment, and may write its status into the folder during its removal."""


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """Make a folder of mode 0700 with a short path, and remove it at the end."""
    base = _base()
    _sweep(base)
    place = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=base))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def in_use(place: Path) -> Iterator[None]:
    """Mark the folder: if its owner dies in this block, the mark stays, and another process may remove the folder."""
    (place / _IN_USE).touch()
    try:
        yield
    finally:
        (place / _IN_USE).unlink(missing_ok=True)


def remove_abandoned(place: Path) -> None:
    """Remove a folder whose owner has died. Does nothing if the owner has ended in an orderly way."""
    for _ in range(_ATTEMPTS):
        if not (place / _IN_USE).exists():
            return
        shutil.rmtree(place, ignore_errors=True)


def remove_abandoned_by(pid: int) -> None:
    """Remove all folders of a process that has died."""
    for place in _base().glob(f"{_PREFIX}{pid}-*"):
        if _is_ours(place):
            remove_abandoned(place)


def _base() -> Path:
    base = Path(tempfile.gettempdir())
    if len(str(base)) > _LONGEST_FOLDER - 30:
        base = Path("/tmp")  # noqa: S108  mkdtemp makes a private folder in it
    return base


def _sweep(base: Path) -> None:
    """Remove the folders of runs whose processes were all killed at once, so that none could clean up."""
    for folder in base.glob(f"{_PREFIX}*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)) and _is_ours(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    try:
        return folder.stat().st_uid == os.getuid()
    except OSError:  # removed meanwhile, or a dangling link
        return False
