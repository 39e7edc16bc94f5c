"""Stopping the own process for real, as a phone stops an app: SIGSTOP, and a kernel timer that sends SIGCONT."""

from __future__ import annotations

import ctypes
import os
import signal

_CLOCK_MONOTONIC = 1
_SIGEV_SIGNAL = 0
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
    """Stop every thread of this process for so many host seconds, or until somebody sends SIGCONT.

    Nobody needs to watch: the kernel's timer goes on while the process does not. Its signal is SIGCONT itself, which
    wakes a stopped process whatever it does about the signal.
    """
    if seconds <= 0:
        return
    timer = ctypes.c_void_p()
    event = _Event(signal=signal.SIGCONT, notify=_SIGEV_SIGNAL)
    _check(_libc.timer_create(_CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer)))
    try:
        whole, rest = divmod(round(seconds * 1e9), 10**9)
        value = _Timer(value=_Moment(whole, rest))
        _check(_libc.timer_settime(timer, 0, ctypes.byref(value), None))
        os.kill(os.getpid(), signal.SIGSTOP)
    finally:
        _check(_libc.timer_delete(timer))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
