"""The signals that end a run."""

from __future__ import annotations

import signal

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""The launcher handles these signals; all other processes of a run ignore them."""


def handled_signals() -> tuple[signal.Signals, ...]:
    """Return the stop signals that end a run of this process: after ``nohup``, the end of the terminal does not."""
    ignores_hangup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return tuple(number for number in STOP_SIGNALS if number != signal.SIGHUP or not ignores_hangup)
