"""Pacing: step k of a job ends at t0 + k·T, an absolute deadline, however fast the host computed it."""

from __future__ import annotations


class Pace:
    """Deadlines of the steps of one job. With no ``seconds_per_step`` the device runs as fast as the host."""

    def __init__(self, started: float, seconds_per_step: float | None) -> None:
        self._started = started
        self._seconds_per_step = seconds_per_step
        self.held = 0.0
        """Seconds of suspension so far; they move every later deadline."""
        self.late = 0.0
        """How far the worst step missed its deadline."""

    def deadline(self, steps: int) -> float:
        """The moment at which ``steps`` steps are done."""
        return self._started + self.held + steps * (self._seconds_per_step or 0.0)

    def finished_step(self, steps: int, now: float) -> None:
        """The host has computed step number ``steps`` (from 1). A miss is recorded, and later deadlines stay."""
        if self._seconds_per_step is not None:
            self.late = max(self.late, now - self.deadline(steps))

    def asked(self, steps: int) -> float:
        """Compute seconds that ``steps`` steps should take; 0 where the device is not paced."""
        return steps * (self._seconds_per_step or 0.0)

    def obtained(self, now: float) -> float:
        """Compute seconds since the start, suspensions not counted."""
        return now - self._started - self.held
