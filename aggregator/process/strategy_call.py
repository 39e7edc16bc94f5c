"""Whether the aggregator is in a call of its strategy, and for which event: a small file that the launcher reads.

A strategy of the user's own may never return. The aggregator has one thread, so it cannot notice that itself: it writes
the beginning and the end of each call to the file, a microsecond each, and the launcher judges how long a call has
lasted (``testbed.processes.strategy_watch``). If it is too long, the launcher sends ``GIVE_UP``: the signal raises
:class:`StrategyHangs` in the strategy, so that the traceback shows its line, and the run ends like after any exception.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
from pathlib import Path
from typing import NamedTuple

GIVE_UP = signal.SIGUSR2
_HEAD = struct.Struct("=QH")
"""Number of the call, 0 between two calls; bytes of the text that follows."""
_LONGEST = 500
_NO_CALL = _HEAD.pack(0, 0)


class StrategyHangs(BaseException):
    """A strategy has not returned for too long. No ``Exception``: strategies may catch those and go on."""


class StrategyCall(NamedTuple):
    number: int
    event: str


class CallFile:
    """Writes the file. Without disk space it writes nothing, and the strategy is not watched."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._calls = 0
        self.in_call = False

    def note(self, event: str) -> None:
        """Note that the strategy is called for an event; empty: that it has returned."""
        self.in_call = bool(event)
        content = _NO_CALL
        if event:
            self._calls += 1
            text = event.encode(errors="replace")[:_LONGEST]
            content = _HEAD.pack(self._calls, len(text)) + text
        with contextlib.suppress(OSError):
            os.pwrite(self._file, content, 0)

    def close(self) -> None:
        os.close(self._file)


def file_beside(status_file: Path) -> Path:
    """The file of a run whose status file is this one."""
    return status_file.with_name("strategy_call")


def read(path: Path) -> StrategyCall | None:
    """Return the call that the aggregator is in; None if it is in none, or if that cannot be read."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    if len(content) < _HEAD.size:
        return None
    number, length = _HEAD.unpack_from(content)
    text = content[_HEAD.size : _HEAD.size + length]
    return StrategyCall(number, text.decode(errors="replace")) if number else None
