"""The core plan, and the limits that a process sets for itself: core, priority, timer slack; all read back."""

from __future__ import annotations

import ctypes
import enum
import os
import resource
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.common.errors import UserError

_PR_SET_PDEATHSIG = 1
_PR_SET_TIMERSLACK = 29
_TIMER_SLACK_NS = 1000
_CAP_SYS_NICE = 23
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 1 << 30
_libc = ctypes.CDLL(None, use_errno=True)


class Priority(enum.IntEnum):
    """Niceness above that of the launcher. Only root may raise a priority, so all but the aggregator lower theirs."""

    AGGREGATOR = 0
    DEVICE = 5
    EVALUATOR = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class CorePlan:
    """The core of the aggregator, of the evaluator, and of each device in fleet order."""

    aggregator: int
    evaluator: int
    devices: tuple[int, ...]

    def __str__(self) -> str:
        shares = ", ".join(f"{core} ({self.devices.count(core)})" for core in sorted(set(self.devices)))
        if self.evaluator == self.aggregator:
            return f"aggregator and evaluator on {self.aggregator}, devices on {shares}"
        return f"aggregator on {self.aggregator}, evaluator on {self.evaluator}, devices on {shares}"


def plan(available: Sequence[int], devices: int) -> CorePlan:
    """The last of two or more cores is the aggregator's; devices are spread over the others.

    The last, because interrupts tend to occur on the first: a device that computes ahead can make up for the time that
    they take, the aggregator cannot. The evaluator shares the aggregator's core at the lowest priority, where it delays
    no deadline. With four cores or more it has its own.
    """
    *others, last = sorted(available)
    evaluator = others.pop() if len(others) >= 3 else last
    others = others or [last]
    return CorePlan(
        aggregator=last, evaluator=evaluator, devices=tuple(others[i % len(others)] for i in range(devices))
    )


def available_cores() -> list[int]:
    if not hasattr(os, "sched_getaffinity"):
        raise UserError("this system cannot pin processes to cores (no sched_setaffinity); run Edgebed on Linux")
    return sorted(os.sched_getaffinity(0))


def settle(core: int, priority: Priority) -> tuple[int, ...]:
    """Pin this process, set its priority and timer slack; returns the affinity that the kernel reports."""
    os.sched_setaffinity(0, {core})
    obtained = tuple(sorted(os.sched_getaffinity(0)))
    if obtained != (core,):
        raise RuntimeError(f"asked to be pinned to core {core}, but the kernel reports {obtained}")
    os.nice(priority)
    if priority is Priority.EVALUATOR:
        run_only_when_idle()
    _prctl(_PR_SET_TIMERSLACK, _TIMER_SLACK_NS)
    return obtained


def run_only_when_idle() -> None:
    """Run only when no other process needs this core: with niceness alone it would finish its time slice."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def can_leave_idle() -> bool:
    """Whether this process may return from SCHED_IDLE: with CAP_SYS_NICE, or if its limit allows its niceness."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NICE)
    if limit == resource.RLIM_INFINITY or limit >= 20 - os.nice(0):
        return True
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    [allowed] = [int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")]
    return bool(allowed >> _CAP_SYS_NICE & 1)


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
