"""What the kernel tells about this host and its processes. What it does not tell is None: not measured."""

from __future__ import annotations

import os
import platform
import select
from dataclasses import dataclass
from pathlib import Path

import psutil

_PRESSURE = Path("/proc/pressure/cpu")
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Usage:
    """Seconds that a thread has run and has waited for a core, since it began."""

    cpu: float
    waited: float


class UsageMeter:
    """Reads /proc/PID/schedstat of a process's first thread again and again, through one open file."""

    def __init__(self, pid: int | None = None) -> None:
        try:
            self._file: int | None = os.open(f"/proc/{pid or os.getpid()}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = None

    def __call__(self) -> Usage | None:
        """None where the kernel does not say: no such file, a process that is gone, or an account that is not kept."""
        if self._file is None:
            return None
        try:
            cpu, waited, _ = os.pread(self._file, 80, 0).split()
        except ProcessLookupError:
            return None
        if not int(cpu) and not keeps_account():
            return None
        return Usage(int(cpu) * 1e-9, int(waited) * 1e-9)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def keeps_account() -> bool:
    """Whether the kernel tells how long processes ran and waited. Without the account it answers zeros, as it does for
    a process that has not run yet; but we have.
    """
    try:
        own = os.open("/proc/self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.pread(own, 80, 0).split()[0] != b"0"
    finally:
        os.close(own)


_IDLE_STATES = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD, psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)


def is_computing(pid: int) -> bool:
    """Whether a process runs: not dead, not frozen."""
    try:
        return psutil.Process(pid).status() not in _IDLE_STATES
    except psutil.NoSuchProcess:
        return False


class ExitWatch:
    """Which processes have ended, however many are watched, for the price of one look (pidfd).

    A kernel that has no such files tells nothing: then nobody is known to have ended.
    """

    def __init__(self) -> None:
        self._ended = select.epoll()
        self._name_of: dict[int, str] = {}
        self._file_of: dict[str, int] = {}
        self._gone: set[str] = set()
        """Who had ended before it could be watched."""

    def watch(self, name: str, pid: int) -> None:
        """From now on, the process of this name is this one."""
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
        """Those that have ended since the last look; each is told once."""
        found = [*self._gone, *(self._name_of[file] for file, _ in self._ended.poll(0))]
        for name in found:
            self._forget(name)
        return found

    def _forget(self, name: str) -> None:
        self._gone.discard(name)
        file = self._file_of.pop(name, None)
        if file is not None:
            del self._name_of[file]
            os.close(file)  # and it is not watched any more


def pressure_seconds() -> float | None:
    """Seconds since boot in which somebody waited for a core (PSI, "some")."""
    try:
        some = _PRESSURE.read_text(encoding="ascii").splitlines()[0]
    except (OSError, IndexError):  # absent, or present and switched off
        return None
    return int(some.rpartition("total=")[2]) * 1e-6


def governor() -> str | None:
    """How the kernel chooses the clock rate: ``powersave`` moves it with the load, and the host's speed with it."""
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
