"""How long it takes until a device is missed, and is back: what was done to it against what the trace says."""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from testbed.history import trace
from tests.chaos.adversary import Done


@dataclass(frozen=True, kw_only=True)
class Noticed:
    """In host seconds."""

    seconds: Sequence[float]
    never: int
    """Not at all, although there was time."""
    cut_short: int
    """The run ended too early to tell."""

    def within(self, bound: float) -> bool:
        return not self.never and all(seconds <= bound for seconds in self.seconds)


class Comings:
    """When devices left and came, on the host's clock. ``origin``: time zero of the run on it."""

    def __init__(self, events: Iterable[trace.Event], origin: float) -> None:
        self.dilation, self._ended = 1.0, math.inf
        self._left: dict[str, list[float]] = defaultdict(list)
        self._joined: dict[str, list[float]] = defaultdict(list)
        for event in events:
            match event:
                case trace.Header():
                    self.dilation = event.dilation
                case trace.Left():
                    self._left[event.device].append(origin + event.t * self.dilation)
                case trace.Joined():
                    self._joined[event.device].append(origin + event.t * self.dilation)
                case trace.Stopped():
                    self._ended = origin + event.t * self.dilation
                case _:
                    pass

    def missed(self, done: Sequence[Done], bound: float) -> Noticed:
        """From the deed until the device was said to have left. Who was not there, nobody could miss."""
        there = [each for each in done if self.was_there(each)]
        return self._noticed([(each.moment, self._left[each.deed.device]) for each in there], bound)

    def was_there(self, done: Done) -> bool:
        """Or its process had been forked after a death, and had not said hello."""
        came, went = (
            [at for at in moments[done.deed.device] if at < done.moment] for moments in (self._joined, self._left)
        )
        return bool(came) and (not went or came[-1] > went[-1])

    def back(self, done: Sequence[Done], bound: float) -> Noticed:
        """From the thaw of devices that had left until they were there again."""
        gone = [each for each in done if each.thawed is not None and self.left_meanwhile(each)]
        return self._noticed([(each.thawed or 0.0, self._joined[each.deed.device]) for each in gone], bound)

    def left_meanwhile(self, done: Done) -> bool:
        """Whether the device left while it was frozen."""
        return any(done.moment <= moment <= (done.thawed or math.inf) for moment in self._left[done.deed.device])

    def _noticed(self, waits: Sequence[tuple[float, list[float]]], bound: float) -> Noticed:
        seconds, never, cut_short = [], 0, 0
        for since, moments in waits:
            place = bisect.bisect_left(moments, since)
            if place < len(moments):
                seconds.append(moments[place] - since)
            elif since + bound >= self._ended:
                cut_short += 1
            else:
                never += 1
        return Noticed(seconds=seconds, never=never, cut_short=cut_short)
