"""Stop this process, as a phone stops an app: by SIGSTOP, and a kernel timer that sends SIGCONT."""

from __future__ import annotations

import ctypes
import os
import signal

_CLOCK_MONOTONIC = 1
_SIGEV_SIGNAL = 0
_REPEAT_NS = 10_000_000
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

    The kernel's timer runs while the process is stopped. Its signal is SIGCONT, which wakes a stopped process in any
    case, even if the process ignores the signal. The signal is repeated: the first may come before the stop.
    """
    if seconds <= 0:
        return
    # by default SIGCONT counts as ignored, and since Linux 6.13 a timer whose signal is ignored does not fire
    before = signal.signal(signal.SIGCONT, lambda *_: None)
    timer = ctypes.c_void_p()
    event = _Event(signal=signal.SIGCONT, notify=_SIGEV_SIGNAL)
    _check(_libc.timer_create(_CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer)))
    try:
        whole, rest = divmod(max(1, round(seconds * 1e9)), 10**9)  # 0 would disarm it
        value = _Timer(interval=_Moment(0, _REPEAT_NS), value=_Moment(whole, rest))
        _check(_libc.timer_settime(timer, 0, ctypes.byref(value), None))
        os.kill(os.getpid(), signal.SIGSTOP)
    finally:
        _check(_libc.timer_delete(timer))
        signal.signal(signal.SIGCONT, before)


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
