"""Pacing: the k-th step of a job ends at an absolute deadline, however fast the host computed it."""

from __future__ import annotations

from collections.abc import Callable


class Pace:
    """Deadlines of the steps of one job: t0 + seconds per sample · samples after k steps.

    With no ``seconds_per_sample`` the device runs as fast as the host.
    """

    def __init__(self, started: float, seconds_per_sample: float | None, samples_after: Callable[[int], int]) -> None:
        self._started = started
        self._seconds_per_sample = seconds_per_sample
        self._samples_after = samples_after
        self.held = 0.0
        """Seconds of suspension so far; they move every later deadline."""
        self.late = 0.0
        """How far the worst step missed its deadline."""

    def deadline(self, steps: int) -> float:
        """The moment at which ``steps`` steps are done."""
        return self._started + self.held + self.asked(steps)

    def finished_step(self, steps: int, now: float) -> None:
        """The host has computed step number ``steps`` (from 1). A miss is recorded, and later deadlines stay."""
        if self._seconds_per_sample is not None:
            self.late = max(self.late, now - self.deadline(steps))

    def asked(self, steps: int) -> float:
        """Compute seconds that ``steps`` steps should take; 0 where the device is not paced."""
        return 0.0 if self._seconds_per_sample is None else self._seconds_per_sample * self._samples_after(steps)

    def obtained(self, now: float) -> float:
        """Compute seconds since the start, suspensions not counted."""
        return now - self._started - self.held
