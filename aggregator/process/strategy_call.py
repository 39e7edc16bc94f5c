"""Whether the aggregator is in a call of its strategy, and for which event: a page of memory that the launcher reads.

A strategy of the user's own may never return. The aggregator has one thread, so it cannot notice that itself: it notes
the beginning and the end of each call here, at the cost of a microsecond, and the launcher judges how long a call has
lasted (``testbed.processes.strategy_watch``). If it is too long, the launcher sends ``GIVE_UP``: the signal raises
:class:`StrategyHangs` in the strategy, so that the traceback shows its line, and the run ends like after any exception.
"""

from __future__ import annotations

import mmap
import signal
import struct
from pathlib import Path
from typing import NamedTuple

GIVE_UP = signal.SIGUSR2
_HEAD = struct.Struct("=QH")
"""Number of the call, 0 between two calls; bytes of the text that follows."""
_PAGE_BYTES = 512
_LONGEST = _PAGE_BYTES - _HEAD.size


class StrategyHangs(BaseException):
    """A strategy has not returned for too long. No ``Exception``: strategies may catch those and go on."""


class StrategyCall(NamedTuple):
    number: int
    event: str


class CallPage:
    """The aggregator's end of the page."""

    def __init__(self, path: Path) -> None:
        with path.open("wb+") as file:
            file.truncate(_PAGE_BYTES)
            self._page = mmap.mmap(file.fileno(), _PAGE_BYTES)
        self._calls = 0
        self.in_call = False

    def note(self, event: str) -> None:
        """Note that the strategy is called for an event; empty: that it has returned."""
        self.in_call = bool(event)
        if not event:
            _HEAD.pack_into(self._page, 0, 0, 0)
            return
        text = event.encode(errors="replace")[:_LONGEST]
        self._page[_HEAD.size : _HEAD.size + len(text)] = text
        self._calls += 1
        _HEAD.pack_into(self._page, 0, self._calls, len(text))


def page_beside(status_file: Path) -> Path:
    return status_file.with_name("strategy_call")


def read(path: Path) -> StrategyCall | None:
    """Return the call that the aggregator is in; None if it is in none, or has not made the page yet."""
    try:
        page = path.read_bytes()
    except FileNotFoundError:
        return None
    if len(page) < _PAGE_BYTES:
        return None
    number, length = _HEAD.unpack_from(page)
    return StrategyCall(number, page[_HEAD.size : _HEAD.size + length].decode(errors="replace")) if number else None
