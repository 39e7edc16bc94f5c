"""The files of the kernel's control groups: reading, writing, moving processes, removing groups, and error messages."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from testbed.common.errors import UserError

PROCS, CHILDREN = "cgroup.procs", "cgroup.subtree_control"
PACE = 'use throttle = "pace", which needs no quota'
_LOOK_SECONDS, _LOOKS = 0.02, 100
_MOVE_ATTEMPTS = 20


class QuotasUnavailable(UserError):
    """This host does not allow CPU quotas; the text says why, and what to do."""


class GroupBusy(UserError):
    """A group could not be removed because it still contains processes."""


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip()


def write(path: Path, text: str) -> None:
    """Write ``text`` in one system call, as the kernel requires.

    Without O_CREAT, which would turn "no such file" into "not permitted".
    """
    try:
        with path.open("r+b", buffering=0) as file:
            file.write(text.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def pids(group: Path) -> list[int]:
    return [int(word) for word in read(group / PROCS).split()]


def subgroups(group: Path) -> list[Path]:
    with contextlib.suppress(FileNotFoundError):
        return sorted(path for path in group.iterdir() if path.is_dir())
    return []


def move_all(source: Path, target: Path) -> None:
    """Move all processes of one group into another. Raises OSError if some remain."""
    for _ in range(_MOVE_ATTEMPTS):  # a process may fork between the read and the write
        found = pids(source)
        if not found:
            return
        for pid in found:
            if pid:  # 0 is a process of another namespace, but writing 0 would move this process
                with contextlib.suppress(ProcessLookupError):
                    write(target / PROCS, str(pid))
    raise OSError(errno.EBUSY, "its processes cannot be moved", str(source))


def remove(group: Path, looks: int = _LOOKS) -> None:
    """Remove a group and its subgroups. Raises GroupBusy if processes remain in them.

    A process that has ended keeps its group busy until its parent has reaped it: hence several attempts.
    """
    for look in range(looks):
        if look:
            threading.Event().wait(_LOOK_SECONDS)
        busy = []
        for path in (*subgroups(group), group):
            try:
                path.rmdir()
            except FileNotFoundError:
                pass
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                busy.append(path)
        if not busy:
            return
    inside = ", ".join(str(pid) for path in busy for pid in pids(path)) or "not visible here"
    raise GroupBusy(
        f"{group}: cannot be removed, it still contains processes ({inside}) after {looks * _LOOK_SECONDS:.0f} s;"
        " end them, and the next run removes it"
    )


@contextlib.contextmanager
def or_unavailable(version: int, but: int | None = None) -> Iterator[None]:
    """Turn an OSError, except one with the number ``but``, into QuotasUnavailable."""
    try:
        yield
    except OSError as error:
        if error.errno == but:
            raise
        raise QuotasUnavailable(f"no CPU quotas: {error.filename}: {error.strerror}; {remedy(version)}") from error


def remedy(version: int) -> str:
    if os.geteuid() == 0:
        better = "start it with systemd-run --scope -p Delegate=yes <command>" if version == 2 else "make it writable"
        return f"{better} (in a container: --privileged), or {PACE}"
    rootless = ", or with systemd-run --user --scope -p Delegate=yes <command>" if version == 2 else ""
    return f"run as root{rootless}, or {PACE}"
