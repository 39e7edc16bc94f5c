"""Does to a run what was planned: kills and freezes processes of its own, and sends garbage to its endpoint."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from testbed.wire.messages import EVALUATOR
from tests.chaos.garbage import Garbage
from tests.chaos.plan import Deed
from tests.live.runs import Run


@dataclass(kw_only=True)
class Done:
    """A kill or a freeze, at this moment of CLOCK_MONOTONIC; and when the device was thawed."""

    deed: Deed
    moment: float
    process: psutil.Process
    thawed: float | None = None

    @property
    def frozen(self) -> float:
        """Host seconds for which it was."""
        return 0.0 if self.thawed is None else self.thawed - self.moment


class Adversary:
    """``origin``: time zero of the run, on CLOCK_MONOTONIC."""

    def __init__(self, run: Run, deeds: Sequence[Deed], garbage: Garbage, origin: float) -> None:
        self._run, self._left, self._garbage, self._origin = run, [*deeds], garbage, origin
        self.done: list[Done] = []
        self.blinded = 0
        """How often the evaluator was killed."""
        self.missed = 0
        """Deeds whose victim was not there."""

    def act(self) -> None:
        """Do what is due by now."""
        self._thaw(time.monotonic())
        while self._left and self._origin + self._left[0].at <= time.monotonic():
            self._do(self._left.pop(0))

    def end(self) -> None:
        """Nobody stays frozen."""
        self._left.clear()
        self._thaw(float("inf"))

    def _do(self, deed: Deed) -> None:
        if deed.do not in ("kill", "freeze", "blind"):
            self._garbage.send(deed.do, deed.device)
            return
        there = members(self._run)
        if "aggregator" not in there:  # the run is over, and its results are being made
            self._left.clear()
            return
        victim = there.get(EVALUATOR if deed.do == "blind" else deed.device)
        try:
            if victim is None or victim.status() == psutil.STATUS_ZOMBIE:
                self.missed += 1
                return
            moment = time.monotonic()
            if deed.do == "freeze":
                victim.suspend()
            else:
                victim.kill()
        except psutil.NoSuchProcess:  # dead just before
            self.missed += 1
            return
        if deed.do == "blind":
            self.blinded += 1
        else:
            self.done.append(Done(deed=deed, moment=moment, process=victim))

    def _thaw(self, now: float) -> None:
        for done in self.done:
            if done.deed.do == "freeze" and done.thawed is None and done.moment + done.deed.seconds <= now:
                done.thawed = time.monotonic()
                with contextlib.suppress(psutil.NoSuchProcess):
                    done.process.resume()


def members(run: Run) -> dict[str, psutil.Process]:
    """Of a run, some of whose processes may be dying."""
    for _ in range(10):
        with contextlib.suppress(psutil.Error, ValueError):
            return run.members()
    return {}
