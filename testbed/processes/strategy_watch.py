"""Notices a strategy that does not return, and an aggregator that does not end.

Theory of operation
    The aggregator notes each call of the strategy in a file (``aggregator.process.strategy_call``), and the launcher
    looks at it a few times per second. Only the time that the aggregator takes by itself counts (``OwnTimeMeter``): a
    slow host, a frozen process and a replay that waits for an update use up no patience. Nor does dilation: these are
    host seconds.
    After some seconds in one call the user is warned. After ``aggregator.patience``, or some seconds after a stop
    signal, the strategy is interrupted (``GIVE_UP``). If it catches even that, or computes in a library that does not
    return to Python, the aggregator is killed. It is also killed if it has not ended long after a stop signal, even if
    it is frozen: so Ctrl-C never waits without limit. The trace is kept in all cases; if a library does not return, its
    last tenth of a second is missing.
"""

from __future__ import annotations

import enum
import math
from pathlib import Path
from typing import Protocol

from aggregator.process import strategy_call
from aggregator.process.strategy_call import StrategyCall

_WARNING_SECONDS = 10.0
_STOP_SECONDS = 15.0
"""How long a call may last that began before a stop signal, after that signal."""
_DEAF_SECONDS = 5.0
"""How long a call may last after it was interrupted."""
_LONGEST_END_SECONDS = 300.0
"""By the clock. The aggregator needs up to a minute after a stop signal: it waits for the last score."""
_LONGEST_PAUSE_SECONDS = 1.0
"""Between two looks. In a longer one, the launcher stood still, and perhaps the whole host."""


class Meter(Protocol):
    def seconds(self, now: float) -> float: ...


class Reaction(enum.Enum):
    FINE = enum.auto()
    SLOW = enum.auto()
    """Warn the user. Once in a run."""
    STUCK = enum.auto()
    """Interrupt the strategy. Once in a call."""
    DEAF = enum.auto()
    """Kill the aggregator."""


class StrategyWatch:
    """Judges how long the present call of a strategy has lasted. ``text`` says it in words."""

    def __init__(self, file: Path, meter: Meter, strategy: str, patience: float) -> None:
        self._file, self._meter, self._strategy, self._patience = file, meter, strategy, patience
        self._call: StrategyCall | None = None
        self._spent = self._spent_since_stop = self._spent_before_interrupt = 0.0
        """Seconds of the aggregator in the present call."""
        self._last_look, self._ending = math.inf, 0.0
        """``_ending``: seconds by the clock since the stop signal."""
        self._has_warned = self._interrupted = False

    def look(self, now: float, *, stopping: bool) -> Reaction:
        """Judge the present call. ``stopping``: the aggregator has received a stop signal."""
        spent, call = self._meter.seconds(now), strategy_call.read(self._file)
        if call != self._call:
            self._call, self._interrupted = call, False
            self._spent = self._spent_since_stop = spent = 0.0
        self._spent += spent
        if stopping:
            self._spent_since_stop += spent
            self._ending += min(max(0.0, now - self._last_look), _LONGEST_PAUSE_SECONDS)
        self._last_look = now
        if self._ending >= _LONGEST_END_SECONDS:
            return Reaction.DEAF
        return Reaction.FINE if call is None else self._judge_call()

    def _judge_call(self) -> Reaction:
        if self._interrupted:
            deaf = self._spent >= self._spent_before_interrupt + _DEAF_SECONDS
            return Reaction.DEAF if deaf else Reaction.FINE
        if self._spent >= self._patience or self._spent_since_stop >= _STOP_SECONDS:
            self._interrupted, self._spent_before_interrupt = True, self._spent
            return Reaction.STUCK
        if self._spent >= _WARNING_SECONDS and not self._has_warned:
            self._has_warned = True
            return Reaction.SLOW
        return Reaction.FINE

    @property
    def text(self) -> str:
        """What is wrong, in one line with the remedy."""
        if self._call is None or self._ending >= _LONGEST_END_SECONDS:
            return f"the aggregator has not ended {self._ending:.0f} s after the signal, and was killed"
        what = f"{self._strategy} has not returned for {self._spent:.0f} s ({self._call.event})"
        if self._interrupted:
            return f"{what} and could not be interrupted: the aggregator was killed; correct the strategy"
        return f"{what}; the run ends if that takes {self._patience:g} s (aggregator.patience)"
