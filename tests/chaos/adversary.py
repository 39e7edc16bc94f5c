"""Carries out planned attacks on a run: kills and freezes its processes, and sends garbage to its endpoint."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from testbed.wire.messages import EVALUATOR
from tests.chaos.garbage import Garbage
from tests.chaos.plan import Attack
from tests.live.runs import Run


@dataclass(kw_only=True)
class DoneAttack:
    """A kill or a freeze, its moment on CLOCK_MONOTONIC, and the moment of the thaw."""

    attack: Attack
    moment: float
    process: psutil.Process
    thawed: float | None = None

    @property
    def frozen(self) -> float:
        """Host seconds for which the device was frozen."""
        return 0.0 if self.thawed is None else self.thawed - self.moment


class Adversary:
    """Attacks one run. ``origin``: time zero of the run, on CLOCK_MONOTONIC."""

    def __init__(self, run: Run, attacks: Sequence[Attack], garbage: Garbage, origin: float) -> None:
        self._run, self._left, self._garbage, self._origin = run, [*attacks], garbage, origin
        self.done: list[DoneAttack] = []
        self.evaluators_killed = 0
        """How often the evaluator was killed."""
        self.missed = 0
        """Attacks whose victim was absent."""

    def act(self) -> None:
        """Carry out the attacks that are due."""
        self._thaw(time.monotonic())
        while self._left and self._origin + self._left[0].at <= time.monotonic():
            self._do(self._left.pop(0))

    def end(self) -> None:
        """Cancel further attacks and thaw all devices."""
        self._left.clear()
        self._thaw(float("inf"))

    def _do(self, attack: Attack) -> None:
        if attack.do not in ("kill", "freeze", "blind"):
            self._garbage.send(attack.do, attack.device)
            return
        there = members(self._run)
        if "aggregator" not in there:  # the run is over, and its results are being written
            self._left.clear()
            return
        victim = there.get(EVALUATOR if attack.do == "blind" else attack.device)
        try:
            if victim is None or victim.status() == psutil.STATUS_ZOMBIE:
                self.missed += 1
                return
            moment = time.monotonic()
            if attack.do == "freeze":
                victim.suspend()
            else:
                victim.kill()
        except psutil.NoSuchProcess:  # dead just before
            self.missed += 1
            return
        if attack.do == "blind":
            self.evaluators_killed += 1
        else:
            self.done.append(DoneAttack(attack=attack, moment=moment, process=victim))

    def _thaw(self, now: float) -> None:
        for done in self.done:
            if done.attack.do == "freeze" and done.thawed is None and done.moment + done.attack.seconds <= now:
                done.thawed = time.monotonic()
                with contextlib.suppress(psutil.NoSuchProcess):
                    done.process.resume()


def members(run: Run) -> dict[str, psutil.Process]:
    """The processes of a run by name, although some may be ending."""
    for _ in range(10):
        with contextlib.suppress(psutil.Error, ValueError):
            return run.members()
    return {}
