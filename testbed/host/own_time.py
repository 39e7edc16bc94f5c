"""The time that a process takes by itself: it computes or sleeps, but does not wait for a core and is not frozen.

So a process on a crowded host, or one that was stopped together with everything else, is not taken for a slow one.
"""

from __future__ import annotations

from collections.abc import Callable

from testbed.host.kernel import Usage, first_thread_state

_MOST_ASLEEP_SECONDS = 1.0
"""Counted at once. In a longer pause between two looks, this process stood still, and perhaps the whole host."""
_ASLEEP, _RUNNABLE = b"S", b"R"


class OwnTimeMeter:
    """Counts the own time of the first thread of a process."""

    def __init__(
        self, pid: int, usage: Callable[[], Usage | None], state: Callable[[int], bytes] = first_thread_state
    ) -> None:
        """``usage`` reads how long the thread has run and waited, as a ``UsageMeter`` does."""
        self._pid, self._usage, self._state = pid, usage, state
        self._before: tuple[float, Usage | None] | None = None

    def seconds(self, now: float) -> float:
        """Return the own time since the last call; ``now`` is in host seconds. The first call returns 0."""
        usage, before = self._usage(), self._before
        self._before = now, usage
        if before is None:
            return 0.0
        elapsed, state = now - before[0], self._state(self._pid)
        if usage is None or before[1] is None:  # this kernel does not count
            return min(elapsed, _MOST_ASLEEP_SECONDS) if state in (_ASLEEP, _RUNNABLE) else 0.0
        computed, waited = usage.cpu - before[1].cpu, usage.waited - before[1].waited
        # what it waits now is counted only when it gets the core: a runnable thread has not slept
        asleep = elapsed - computed - waited if state == _ASLEEP else 0.0
        return computed + min(max(0.0, asleep), _MOST_ASLEEP_SECONDS)
