"""How long it takes until the aggregator notices that a device is gone or back: attacks compared with the trace."""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from testbed.history import trace
from tests.chaos.adversary import DoneAttack


@dataclass(frozen=True, kw_only=True)
class Noticed:
    """Delays in host seconds from an attack to its notice in the trace."""

    seconds: Sequence[float]
    never: int
    """Attacks that were not noticed although there was time."""
    cut_short: int
    """Attacks after which the run ended too early."""

    def within(self, bound: float) -> bool:
        return not self.never and all(seconds <= bound for seconds in self.seconds)


class PresenceTimes:
    """When devices joined and left, on the host's clock. ``origin``: time zero of the run on it."""

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

    def missed(self, done: Sequence[DoneAttack], bound: float) -> Noticed:
        """From the attack until the device left. Devices that were absent are not counted."""
        there = [each for each in done if self.was_there(each)]
        return self._noticed([(each.moment, self._left[each.attack.device]) for each in there], bound)

    def was_there(self, done: DoneAttack) -> bool:
        """Whether the device was present. (A restarted process may not have joined yet.)"""
        came, went = (
            [at for at in moments[done.attack.device] if at < done.moment] for moments in (self._joined, self._left)
        )
        return bool(came) and (not went or came[-1] > went[-1])

    def back(self, done: Sequence[DoneAttack], bound: float) -> Noticed:
        """From the thaw of a device that had left until it joined again."""
        gone = [each for each in done if each.thawed is not None and self.left_meanwhile(each)]
        return self._noticed([(each.thawed or 0.0, self._joined[each.attack.device]) for each in gone], bound)

    def left_meanwhile(self, done: DoneAttack) -> bool:
        """Whether the device left while it was frozen."""
        return any(done.moment <= moment <= (done.thawed or math.inf) for moment in self._left[done.attack.device])

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
