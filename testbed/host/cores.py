"""The limits that a process sets for itself: cores, priority, timer slack; all read back."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Sequence

from testbed.common.errors import UserError
from testbed.host import topology
from testbed.host.core_plan import CoreRoles, roles_of
from testbed.host.priority import Priority, run_only_when_idle, strongest_policy

_PR_SET_PDEATHSIG = 1
_PR_SET_TIMERSLACK = 29
_TIMER_SLACK_NS = 1000
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 1 << 30
_libc = ctypes.CDLL(None, use_errno=True)


def available_cores() -> list[int]:
    if not hasattr(os, "sched_getaffinity"):
        raise UserError("this system cannot pin processes to cores (no sched_setaffinity); run Edgebed on Linux")
    return sorted(os.sched_getaffinity(0))


def roles() -> CoreRoles:
    """Read off this host what each of its cores is for."""
    return roles_of(topology.read(available_cores()), strongest_policy())


def settle(cores: Sequence[int], priority: Priority) -> tuple[int, ...]:
    """Restrict this process to cores, set its priority and timer slack; returns the cores that the kernel reports."""
    os.sched_setaffinity(0, cores)
    obtained = tuple(sorted(os.sched_getaffinity(0)))
    if obtained != tuple(sorted(cores)):
        raise RuntimeError(f"asked to be pinned to cores {tuple(cores)}, but the kernel reports {obtained}")
    os.nice(priority)
    if priority is Priority.EVALUATOR:
        run_only_when_idle()
    _prctl(_PR_SET_TIMERSLACK, _TIMER_SLACK_NS)
    return obtained


def unpin() -> None:
    """Let this process use every core of its parent: it has no deadline any more, and should end soon."""
    os.sched_setaffinity(0, os.sched_getaffinity(os.getppid()))


def keep_freed_memory() -> None:
    """Have the C allocator keep freed memory.

    Each version is a vector of the same size as the last. Returning it to the kernel and faulting it in again, page by
    page, costs more than the arithmetic on it.
    """
    if hasattr(_libc, "mallopt"):  # glibc; other libraries are only slower
        _libc.mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        _libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def die_with_parent(parent: int, with_signal: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel end this process when ``parent`` ends for any reason.

    The kernel watches the thread that forked this process, and ignores a request that comes after its death: so check
    the parent afterwards.
    """
    _prctl(_PR_SET_PDEATHSIG, int(with_signal))
    if os.getppid() != parent:
        os._exit(1)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")
