"""Which process runs on which core, and the limits a process puts on itself and reads back."""

from __future__ import annotations

import ctypes
import enum
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.common.errors import UserError

_PR_SET_PDEATHSIG = 1
_PR_SET_TIMERSLACK = 29
_TIMER_SLACK_NS = 1000
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 1 << 30
_libc = ctypes.CDLL(None, use_errno=True)


class Priority(enum.IntEnum):
    """Steps back from the launcher's own niceness. Raising priority needs root, lowering it does not: so everyone
    but the aggregator steps back.
    """

    AGGREGATOR = 0
    DEVICE = 5
    EVALUATOR = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class CorePlan:
    """Core of the aggregator and evaluator, and of each device in fleet order."""

    aggregator: int
    evaluator: int
    devices: tuple[int, ...]

    def __str__(self) -> str:
        shares = ", ".join(f"{core} ({self.devices.count(core)})" for core in sorted(set(self.devices)))
        if self.evaluator == self.aggregator:
            return f"aggregator and evaluator on {self.aggregator}, devices on {shares}"
        return f"aggregator on {self.aggregator}, evaluator on {self.evaluator}, devices on {shares}"


def plan(available: Sequence[int], devices: int) -> CorePlan:
    """The aggregator owns the last core where there are two or more; devices take turns on the others.

    The last, because interrupts tend to land on the first: a device that computes ahead makes up for the time they
    take, the aggregator cannot. The evaluator sits with it at the lowest priority: there it can delay nobody's
    deadline. With four cores or more it has one to itself.
    """
    *others, last = sorted(available)
    evaluator = others.pop() if len(others) >= 3 else last
    others = others or [last]
    return CorePlan(
        aggregator=last, evaluator=evaluator, devices=tuple(others[i % len(others)] for i in range(devices))
    )


def available_cores() -> list[int]:
    if not hasattr(os, "sched_getaffinity"):
        raise UserError("this system cannot pin processes to cores (no sched_setaffinity); Edgebed needs Linux")
    return sorted(os.sched_getaffinity(0))


def settle(core: int, priority: Priority) -> tuple[int, ...]:
    """Pin this process, set its priority and timer slack; gives the affinity as read back from the kernel."""
    os.sched_setaffinity(0, {core})
    obtained = tuple(sorted(os.sched_getaffinity(0)))
    if obtained != (core,):
        raise RuntimeError(f"asked to be pinned to core {core}, but the kernel says {obtained}")
    os.nice(priority)
    if priority is Priority.EVALUATOR:
        yield_to_everybody()
    _prctl(_PR_SET_TIMERSLACK, _TIMER_SLACK_NS)
    return obtained


def yield_to_everybody() -> None:
    """Run only when nobody else wants this core: niceness alone lets a process finish its slice of milliseconds."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def keep_freed_memory() -> None:
    """Have the C allocator keep what was freed. Each version is a vector of the same size as the last: handing it
    back to the kernel and faulting it in again, page by page, costs more than the arithmetic on it.
    """
    if hasattr(_libc, "mallopt"):  # glibc; elsewhere it is only slower
        _libc.mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        _libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def die_with_parent(parent: int, with_signal: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel end this process when ``parent`` ends, however it ends.

    The request follows the thread that forked us, and is void if that died before we asked: so look once after.
    """
    _prctl(_PR_SET_PDEATHSIG, int(with_signal))
    if os.getppid() != parent:
        os._exit(1)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")
