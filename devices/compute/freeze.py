"""Stop this process, as a phone stops an app: by SIGSTOP, and a kernel timer that sends SIGCONT."""

from __future__ import annotations

import ctypes
import os
import signal

_CLOCK_MONOTONIC = 1
_SIGEV_SIGNAL = 0
_LATER_SECONDS = (0.0, 0.01, 0.1, 1.0)
"""When the signals come, after the end of the freeze: the first that comes after the stop wakes the process."""
_libc = ctypes.CDLL(None, use_errno=True)


class _Event(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("_", ctypes.c_int * 12),
    )


class _Moment(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Timer(ctypes.Structure):
    _fields_ = (("interval", _Moment), ("value", _Moment))


def freeze(seconds: float) -> None:
    """Stop every thread of this process for some host seconds, or until another process sends SIGCONT.

    The kernel's timers run while the process is stopped. Their signal is SIGCONT, which wakes a stopped process in any
    case, even if the process ignores the signal. There are several, each for one signal: SIGSTOP discards a SIGCONT
    that has just come, and a timer that repeats its signal then never fires again.
    """
    if seconds <= 0:
        return
    # by default SIGCONT counts as ignored, and since Linux 6.13 a timer whose signal is ignored does not fire
    before = signal.signal(signal.SIGCONT, lambda *_: None)
    timers: list[ctypes.c_void_p] = []
    try:
        timers.extend(_timer(seconds + later) for later in _LATER_SECONDS)
        os.kill(os.getpid(), signal.SIGSTOP)
    finally:
        for timer in timers:
            _check(_libc.timer_delete(timer))
        signal.signal(signal.SIGCONT, before)


def _timer(seconds: float) -> ctypes.c_void_p:
    """Start a timer that sends SIGCONT to this process once, after some seconds."""
    timer = ctypes.c_void_p()
    event = _Event(signal=signal.SIGCONT, notify=_SIGEV_SIGNAL)
    _check(_libc.timer_create(_CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer)))
    whole, rest = divmod(max(1, round(seconds * 1e9)), 10**9)  # 0 would disarm it
    value = _Timer(interval=_Moment(0, 0), value=_Moment(whole, rest))
    _check(_libc.timer_settime(timer, 0, ctypes.byref(value), None))
    return timer


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
