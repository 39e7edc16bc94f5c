"""The private folder of a run: its sockets and its status file. No other user can open it.

Theory of operation. Whether a folder is in use is not guessed, say by a pid in its name, which means another process in
another PID namespace: the folder contains a file, and who uses the folder holds a lock on it (flock). The kernel
releases the lock with the last process that has the open file, however that process ends, and knows nothing of
namespaces.

- The file gets its name when it is locked already. So there is no moment in which somebody finds an unlocked file of
  this name in a folder that is about to be used. A folder without the file is not touched: nobody knows whose it is.
- One exception: a launcher may be killed before it has locked its folder. A folder whose name, owner and mode are ours
  and that contains nothing, or only the empty file that was to be locked, is removed, too. If its launcher is alive and
  only about to lock it, that launcher notices the removal and makes another folder.
- The launcher passes the open file on to its template (``share``), and all processes of the run inherit it. If the
  launcher is killed, the folder stays until the last of them has ended: they may still write into it.
- The name of the file contains the boot id of the kernel that has the lock: another machine that shares the temporary
  folder over a network cannot see it.
- Leftovers, of runs whose processes were all killed at once, are removed by the next run. That removes only a real
  folder of this user that has our file and whose lock it obtains. It follows no links, works below descriptors, so that
  nobody can exchange the folder meanwhile, and raises nothing: whatever it cannot remove, it leaves.
- If the file system has no locks, the folder is used without, and only its owner removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "edgebed-"
_NAME = re.compile(rf"{_PREFIX}\d+-[a-z0-9_]{{8}}")
_LONGEST_FOLDER = 60
"""The path of a unix socket has at most 107 bytes."""
_DRAFT, _NO_LOCKS = "lock.new", "no-locks"
_PROBLEMS = (OSError, RecursionError)
"""What the removal of a folder may raise: a tree of folders can be deeper than Python's stack."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class PrivateFolder:
    path: Path
    lock: int | None
    """The descriptor of the lock; None if the file system has no locks."""

    def share(self) -> list[int]:
        """Return the descriptors that a process must inherit, so that the folder lasts as long as the process."""
        return [] if self.lock is None else [self.lock]


@contextlib.contextmanager
def private_folder() -> Iterator[PrivateFolder]:
    """Make a folder of mode 0700 with a short path, and remove it at the end."""
    sweep()
    path, lock = _made(_base())
    try:
        yield PrivateFolder(path, lock)
    finally:
        with contextlib.suppress(*_PROBLEMS), _opened(path.parent) as parent, _opened(path.name, parent) as folder:
            _clear(path.name, parent, folder)  # all processes of the run have ended
        if lock is not None:
            os.close(lock)


def sweep() -> None:
    """Remove the folders of runs whose processes were all killed at once, so that none could clean up."""
    base = _base()
    with contextlib.suppress(OSError):
        for name in os.listdir(base):
            if name.startswith(_PREFIX):
                remove_abandoned(base / name)


def remove_abandoned(path: Path) -> bool:
    """Remove a folder that no process uses any more. Returns whether it is gone. Raises nothing."""
    try:
        with _opened(path.parent) as parent, _opened(path.name, parent) as folder:
            if os.fstat(folder).st_uid != os.getuid():
                return False
            if _is_unfinished(path.name, folder):
                _remove_unfinished(path.name, parent, folder)
            else:
                _remove(path.name, parent, folder)
    except _PROBLEMS:  # a link, a file, a folder of others, one that is locked, or that somebody else removes just now
        return not os.path.lexists(path)
    return not os.path.lexists(path)


def _base() -> Path:
    base = Path(tempfile.gettempdir())
    if len(str(base)) > _LONGEST_FOLDER - 30:
        base = Path("/tmp")  # noqa: S108  mkdtemp makes a private folder in it
    return base


def _lock_name() -> str:
    try:
        return f"lock-{_BOOT_ID.read_bytes().decode().strip()}"  # imports no codec: a signal handler may call this
    except OSError:
        return "lock"


def _made(base: Path) -> tuple[Path, int | None]:
    """Make a folder and lock it. Returns it and the descriptor of its lock; None if the file system has no locks."""
    while True:
        # the pid is for people who look at the folder: nothing depends on it
        path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=base))
        with contextlib.suppress(FileNotFoundError, BlockingIOError):  # another run took it for a leftover: once more
            return path, _locked(path)


def _locked(path: Path) -> int | None:
    """Lock a new folder. Returns the descriptor of its lock; None if the file system has no locks.

    Raises FileNotFoundError or BlockingIOError if another process removes the folder meanwhile.
    """
    draft = path / _DRAFT
    lock = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        draft.rename(path / _lock_name())
    except (FileNotFoundError, BlockingIOError):
        os.close(lock)
        raise
    except OSError:
        os.close(lock)
        draft.rename(path / _NO_LOCKS)  # else the folder would look like one that was never used
        return None
    return lock


@contextlib.contextmanager
def _opened(name: str | Path, parent: int | None = None) -> Iterator[int]:
    """Open a folder, which may not be a link below ``parent``."""
    link = os.O_NOFOLLOW if parent is not None else 0
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | link, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_unfinished(name: str, folder: int) -> bool:
    """Whether a launcher made this folder and has not locked it: it was killed, or is about to."""
    is_private = stat.S_IMODE(os.fstat(folder).st_mode) == stat.S_IRWXU
    return is_private and _NAME.fullmatch(name) is not None and os.listdir(folder) in ([], [_DRAFT])


def _remove_unfinished(name: str, parent: int, folder: int) -> None:
    """Remove such a folder. Raises OSError if it has been locked or filled meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        draft = _opened_lock(_DRAFT, folder)
        try:
            if os.fstat(draft).st_size:
                return
            fcntl.flock(draft, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(_DRAFT, dir_fd=folder)
        finally:
            os.close(draft)
    os.rmdir(name, dir_fd=parent)


def _opened_lock(name: str, folder: int) -> int:
    """Open a file that is to be locked. It may be a pipe of somebody else, which must not block."""
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)


def _remove(name: str, parent: int, folder: int) -> None:
    """Remove a folder if its lock can be obtained. Raises OSError if it cannot."""
    lock = _opened_lock(_lock_name(), folder)
    try:
        if not stat.S_ISREG(os.fstat(lock).st_mode):
            return
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _clear(name, parent, folder)
    finally:
        os.close(lock)


def _clear(name: str, parent: int, folder: int) -> None:
    """Remove a folder; its lock last: without it, nobody would remove what is left if this process is killed here."""
    own = _lock_name()
    for entry in [each for each in os.listdir(folder) if each != own]:
        if stat.S_ISDIR(os.stat(entry, dir_fd=folder, follow_symlinks=False).st_mode):
            shutil.rmtree(entry, dir_fd=folder)
        else:
            os.unlink(entry, dir_fd=folder)
    with contextlib.suppress(FileNotFoundError):  # a file system without locks
        os.unlink(own, dir_fd=folder)
    os.rmdir(name, dir_fd=parent)
