"""Pacing: the k-th step of a job ends at an absolute deadline, however fast the host computed it.

A step counts as ended at its deadline, or when its computation ended if that was later: nothing leaves the device
between two steps, so no other process can see the difference. For the same reason a step may be computed a little
``ahead`` of its time, which absorbs the waits of a crowded core; and deadlines that are closer to each other than a
``grain`` are checked together. A late step moves no later deadline.
"""

from __future__ import annotations

from collections.abc import Callable

from testbed.history.trace import Miss, Use
from testbed.host.kernel import Usage
from testbed.profile.speed import SteppedCurve

_HASTE = 1 / 3
"""A job may be ahead by this part of the time since it began: it computes at most at 1.5 times its speed."""


class Pace:
    """The deadlines of the steps of one job, and the misses.

    Without ``seconds_per_sample`` the device computes as fast as the host.
    """

    def __init__(
        self,
        started: float,
        seconds_per_sample: float | None,
        samples_after: Callable[[int], int],
        curve: SteppedCurve,
        usage: Usage | None = None,
        *,
        steps: int,
        ahead: float = 0.0,
        grain: float = 0.0,
        enforced: bool = True,
    ) -> None:
        """Not ``enforced``: a quota slows the device down, and the deadlines are only reported."""
        self._enforced = enforced and seconds_per_sample is not None
        self._steps, self._ahead, self._grain = steps, ahead, grain
        self._started = self._anchor = started
        self._seconds_per_sample = seconds_per_sample
        self._samples_after = samples_after
        self._curve = curve
        self._work_at_anchor = 0.0
        self._deadlines: dict[int, float] = {}
        """Those that were asked for since the last suspension: each is asked for several times."""
        self._suspended = 0.0
        self._usage = self._first_usage = self._checked_usage = usage
        self._stolen = 0.0
        self._checked = 0
        """The last step whose deadline was checked."""
        self.checks = 0
        self.misses: list[Miss] = []
        self.computed = started
        """When the computation of the last step ended."""

    def deadline(self, steps: int) -> float:
        """Return the moment at which ``steps`` steps should be done."""
        found = self._deadlines.get(steps)
        if found is None:
            found = self._curve.when(self._anchor, self._work(steps) - self._work_at_anchor)
            self._deadlines[steps] = found
        return found

    def begins(self, steps: int) -> float:
        """Return the moment from which the step after ``steps`` others may be computed.

        A job gets ahead little by little. Otherwise, if many jobs begin at once, as after a tick, each would use the
        core for as long as it may be ahead, and the steps with the nearest deadlines would have to wait.
        """
        if self._seconds_per_sample is None:
            return max(self._anchor, self.computed)
        scheduled = self.deadline(steps)
        return max(self._anchor, scheduled - min(self._ahead, _HASTE * (scheduled - self._anchor)))

    def ended(self, steps: int) -> float:
        """Return when ``steps`` steps were done. The last of them has been computed."""
        return max(self.deadline(steps), self.computed) if self._enforced else max(self._anchor, self.computed)

    def suspend(self, since: float, until: float) -> None:
        """Move every later deadline by a suspension that is over, whatever the speed is after it.

        A step that was computed during the suspension counts as computed at its end.
        """
        if self.computed > since:
            self.computed = max(self.computed, until)
        self._work_at_anchor += self._curve.work(self._anchor, since)
        self._anchor = until
        self._deadlines.clear()
        self._suspended += until - since

    def finished_step(self, steps: int, now: float, usage: Usage | None = None) -> None:
        """Record that the host has computed step number ``steps`` (from 1)."""
        self.computed = now
        if not self._enforced or not self._is_checked(steps):
            self._usage = usage
            return
        deadline, asked = self.deadline(steps), self.deadline(steps) - self.deadline(self._checked)
        self.checks += 1
        if now > deadline:
            self.misses.append(Miss(self.checks, asked, now - deadline))
            if usage is not None and self._checked_usage is not None:
                self._stolen += usage.waited - self._checked_usage.waited
        self._usage = self._checked_usage = usage
        self._checked = steps

    def _is_checked(self, steps: int) -> bool:
        """Return True for the last deadline, and for those a grain after the one before and a grain before the last."""
        if steps == self._steps:
            return True
        deadline = self.deadline(steps)
        return (
            deadline - self.deadline(self._checked) >= self._grain
            and self.deadline(self._steps) - deadline >= self._grain
        )

    def asked(self, steps: int) -> float:
        """Return the compute seconds that ``steps`` steps should take; 0 if the device is not paced."""
        return self.deadline(steps) - self._started - self._suspended

    def obtained(self, now: float) -> float:
        """Return the compute seconds since the start, without suspensions."""
        return now - self._started - self._suspended

    def use(self) -> Use | None:
        """Return the host seconds of this job's process; None if the kernel does not report them."""
        first, last = self._first_usage, self._usage
        if first is None or last is None:
            return None
        return Use(cpu=last.cpu - first.cpu, waited=last.waited - first.waited, stolen=self._stolen)

    def _work(self, steps: int) -> float:
        """Return the seconds of some steps at the device's own speed."""
        return 0.0 if self._seconds_per_sample is None else self._seconds_per_sample * self._samples_after(steps)
