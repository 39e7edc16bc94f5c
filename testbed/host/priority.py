"""The priority of a process of a run, and how the aggregator gets its core at once although devices compute on it.

Theory of operation
    Devices may share the aggregator's core (ADR 27). A message or a due moment must wake the aggregator within a
    fraction of a millisecond, while a device computes for seconds without a pause. Niceness alone does not give that:
    the kernel lets the running process finish its slice, some milliseconds. Three policies, the strongest first:
    REAL_TIME   SCHED_FIFO at the lowest real-time priority: it interrupts every ordinary process. Needs root,
                CAP_SYS_NICE or a limit (ulimit -r) of at least 1, and a kernel that keeps a share of each core for
                ordinary processes, so that a strategy in an endless loop cannot take the core for ever.
    SHORT_SLICE an ordinary process that asks for slices of 0.1 ms (Linux ≥ 6.12): it interrupts processes with longer
                slices. The devices on its core have a much lower priority. Needs no permission.
    NICE        niceness only. The planner then shares the core only if the profile demands it.
    What was set is read back. In a fleet without deadlines nothing is due, and the aggregator is an ordinary process
    until the run is over (``take_precedence``).
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import os
import platform
import resource
import struct
from pathlib import Path

_RT_RUNTIME = Path("/proc/sys/kernel/sched_rt_runtime_us")
_RT_PERIOD = Path("/proc/sys/kernel/sched_rt_period_us")
_FIFO_PRIORITY = 1
_SLICE_NS = 100_000
_ATTRIBUTES = struct.Struct("=IIQiIQQQII")
"""struct sched_attr: size, policy, flags, nice, priority, runtime (the slice), deadline, period, two clamps."""
_SYSTEM_CALLS = {"x86_64": (314, 315), "aarch64": (274, 275)}
"""Machine → numbers of sched_setattr and sched_getattr, which the C library does not offer."""
_CAP_SYS_NICE = 23
_libc = ctypes.CDLL(None, use_errno=True)


class Priority(enum.IntEnum):
    """Niceness above that of the launcher. Only root may raise a priority, so all but the aggregator lower theirs."""

    AGGREGATOR = 0
    DEVICE = 5
    DEVICE_BESIDE_AGGREGATOR = 14
    EVALUATOR = 15


class Policy(enum.StrEnum):
    """How the aggregator gets its core when it wakes."""

    REAL_TIME = "real-time"
    SHORT_SLICE = "short slice"
    NICE = "nice"


def strongest_policy() -> Policy:
    """Find the strongest policy that this process may use, by using it for a moment."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    if _keeps_a_share_for_others() and _try_real_time():
        os.sched_setscheduler(0, *before)
        return Policy.REAL_TIME
    if _set_slice(_SLICE_NS):
        _set_slice(0)
        return Policy.SHORT_SLICE
    return Policy.NICE


def adopt(policy: Policy) -> None:
    """Use a policy in this thread and those it starts. Raises RuntimeError if the kernel does not report it back."""
    if not _obtain(policy):
        raise RuntimeError(f"the aggregator asked for the policy {policy}, but the kernel does not report it")


def take_precedence() -> None:
    """Use the strongest policy in all threads of this process, those of ZeroMQ included.

    For the end of a run: beside 250 devices on its core, an ordinary process would get one percent of it.
    """
    policy = strongest_policy()
    for thread in map(int, os.listdir("/proc/self/task")):
        with contextlib.suppress(OSError):  # it has ended since, or a strategy has forbidden it
            if policy is Policy.SHORT_SLICE:
                os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
            _obtain(policy, thread)


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


def _obtain(policy: Policy, thread: int = 0) -> bool:
    """Use a policy in a thread (0: this one), and return whether the kernel reports it."""
    if policy is Policy.REAL_TIME:
        return _try_real_time(thread)
    return policy is Policy.NICE or _set_slice(_SLICE_NS, thread)


def _keeps_a_share_for_others() -> bool:
    """Whether real-time processes may use a core, but not the whole of it (a runtime of -1, or of the period)."""
    try:
        runtime, period = (int(path.read_text(encoding="ascii")) for path in (_RT_RUNTIME, _RT_PERIOD))
    except (OSError, ValueError):
        return False
    return 0 < runtime < period


def _try_real_time(thread: int = 0) -> bool:
    try:
        os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(_FIFO_PRIORITY))
    except OSError:
        return False
    return os.sched_getscheduler(thread) == os.SCHED_FIFO


def _set_slice(nanoseconds: int, thread: int = 0) -> bool:
    """Ask for slices of this length (0: the kernel's own) and return whether the kernel reports it."""
    calls = _SYSTEM_CALLS.get(platform.machine())
    if calls is None or os.sched_getscheduler(thread) != os.SCHED_OTHER:
        return False
    setting, getting = calls
    nice = os.getpriority(os.PRIO_PROCESS, thread)
    wanted = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, nanoseconds, 0, 0, 0, 0)
    if _libc.syscall(setting, thread, ctypes.create_string_buffer(wanted, _ATTRIBUTES.size), 0) != 0:
        return False
    found = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if _libc.syscall(getting, thread, found, _ATTRIBUTES.size, 0) != 0:
        return False
    obtained: int = _ATTRIBUTES.unpack(found.raw)[5]
    return nanoseconds == 0 or obtained == nanoseconds
