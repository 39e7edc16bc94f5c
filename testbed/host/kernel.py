"""Figures that the kernel reports about this host and its processes. None: the kernel does not report it."""

from __future__ import annotations

import errno
import os
import platform
import select
import threading
from dataclasses import dataclass
from pathlib import Path

import psutil

_PRESSURE = Path("/proc/pressure/cpu")
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Usage:
    """Seconds that a thread has run, and has waited for a core, since it started."""

    cpu: float
    waited: float


class UsageMeter:
    """Reads /proc/PID/schedstat of a process's first thread repeatedly, through one open file."""

    def __init__(self, pid: int | None = None) -> None:
        try:
            self._file: int | None = os.open(f"/proc/{pid or os.getpid()}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = None

    def __call__(self) -> Usage | None:
        """The usage so far; None if there is no such file or process, or if the kernel does not count."""
        if self._file is None:
            return None
        try:
            cpu, waited, _ = os.pread(self._file, 80, 0).split()
        except (OSError, ValueError):  # the process has ended
            return None
        if not int(cpu) and not has_schedstat():
            return None
        return Usage(int(cpu) * 1e-9, int(waited) * 1e-9)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def has_schedstat() -> bool:
    """Whether the kernel counts how long processes run and wait.

    If not, it reports zeros, as for a process that has not run yet; but this process has run.
    """
    try:
        own = os.open("/proc/self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.pread(own, 80, 0).split()[0] != b"0"
    finally:
        os.close(own)


_ENDED = (errno.ENOENT, errno.ESRCH)
_IDLE_STATES = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD, psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)


def is_computing(pid: int) -> bool:
    """Whether a process is neither dead nor frozen. One whose state cannot be read counts as alive."""
    try:
        return psutil.Process(pid).status() not in _IDLE_STATES
    except psutil.NoSuchProcess:
        return False
    except (OSError, psutil.Error):  # no free descriptor, or a kernel that hides other processes
        return True


def is_runnable(pid: int) -> bool:
    """Whether a thread of a process runs or waits for a core at this moment (state R).

    The kernel adds the time that a thread waits to its schedstat only when the thread gets the core: on a full host
    both counters of a waiting process may stand still for seconds, and only this state shows that it is not asleep.
    A state that cannot be read counts as R.
    """
    return _has_runnable_thread(pid)


def is_another_thread_runnable() -> bool:
    """Whether a thread of this process other than the calling one runs or waits for a core; likewise."""
    return _has_runnable_thread(os.getpid(), apart_from=str(threading.get_native_id()))


def first_thread_state(pid: int) -> bytes:
    """The state of the first thread of a process: R, S (asleep), D (waits for a disk), T (stopped), …; empty if ended.

    A state that cannot be read counts as R.
    """
    return _thread_state(pid, str(pid))


def _has_runnable_thread(pid: int, apart_from: str = "") -> bool:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError as problem:
        return problem.errno not in _ENDED
    return any(_thread_state(pid, thread) == b"R" for thread in threads if thread != apart_from)


def _thread_state(pid: int, thread: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/task/{thread}/stat").read_bytes().rpartition(b") ")[2][:1]
    except OSError as problem:
        return b"" if problem.errno in _ENDED else b"R"


class ExitWatch:
    """Reports which of the watched processes have ended, at a cost that does not depend on their number (pidfd).

    On a kernel without pidfd it reports none.
    """

    def __init__(self) -> None:
        self._ended = select.epoll()
        self._name_of: dict[int, str] = {}
        self._file_of: dict[str, int] = {}
        self._gone: set[str] = set()
        """Processes that had ended before they could be watched."""

    def watch(self, name: str, pid: int) -> None:
        """Watch the process ``pid`` under this name, instead of an earlier one."""
        self._forget(name)
        try:
            file = os.pidfd_open(pid)
        except ProcessLookupError:
            self._gone.add(name)
        except OSError:
            return
        else:
            self._ended.register(file, select.EPOLLIN)
            self._name_of[file], self._file_of[name] = name, file

    def ended(self) -> list[str]:
        """The names of processes that have ended since the last call; each is returned once."""
        found = [*self._gone, *(self._name_of[file] for file, _ in self._ended.poll(0))]
        for name in found:
            self._forget(name)
        return found

    def _forget(self, name: str) -> None:
        self._gone.discard(name)
        file = self._file_of.pop(name, None)
        if file is not None:
            del self._name_of[file]
            os.close(file)  # which also removes it from the epoll set


def pressure_seconds() -> float | None:
    """Seconds since boot in which at least one process waited for a core (PSI, "some")."""
    try:
        some = _PRESSURE.read_text(encoding="ascii").splitlines()[0]
    except (OSError, IndexError):  # absent, or switched off
        return None
    return int(some.rpartition("total=")[2]) * 1e-6


def governor() -> str | None:
    """How the kernel chooses the clock rate: with ``powersave``, it depends on the load."""
    try:
        return _GOVERNOR.read_text(encoding="ascii").strip()
    except OSError:
        return None


def processor() -> str:
    try:
        lines = _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
