"""Refusals for the trace: repeated ones are recorded once a second, with a count. No I/O."""

from __future__ import annotations

from collections.abc import Callable

from testbed.history import trace

_SECONDS = 1.0
_MOST = 64
"""Pairs of peer and reason that are counted separately: a peer that floods may use any number of names."""
_MANY = ("many", "many reasons")
_LONGEST_NAME, _LONGEST_REASON = 100, 300


class Refusals:
    """Records the first refusal of a peer and reason at once, and those of the following second together."""

    def __init__(self, record: Callable[[trace.Event], None]) -> None:
        self._record = record
        self._since: dict[tuple[str, str], float] = {}
        self._more: dict[tuple[str, str], int] = {}

    def add(self, peer: str, reason: str, moment: float, host_now: float, count: int = 1) -> bool:
        """Count a refusal. Return whether it is the first within a second. ``moment`` goes into the trace."""
        key = (peer, reason)
        if key not in self._since and len(self._since) >= _MOST:
            key = _MANY
        if key in self._since:
            self._more[key] = self._more.get(key, 0) + count
            return False
        self._since[key] = host_now
        self._write(key, moment, count)
        return True

    def flush(self, moment: float, host_now: float, *, last: bool = False) -> None:
        """Record what has been counted for a second; with ``last``, everything."""
        for key, since in list(self._since.items()):
            if not last and 0.0 <= host_now - since < _SECONDS:  # (the clock is reset when the run begins)
                continue
            count = self._more.pop(key, 0)
            if count:
                self._since[key] = host_now
                self._write(key, moment, count)
            else:
                del self._since[key]

    def _write(self, key: tuple[str, str], moment: float, count: int) -> None:
        peer, reason = key
        printable = peer.encode("ascii", "backslashreplace").decode()  # the name of an unknown peer may be any bytes
        self._record(trace.Refusal(t=moment, peer=printable[:_LONGEST_NAME], reason=_printable(reason), count=count))


def _printable(reason: str) -> str:
    """The text of an exception may contain what a peer has sent."""
    shown = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in reason[:_LONGEST_REASON])
    return shown[:_LONGEST_REASON]
