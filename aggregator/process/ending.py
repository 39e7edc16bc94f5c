"""Whether the run is over, and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from testbed.profile.schema import StopWhen

INTERRUPTED, UNWRITABLE, TIME_IS_OVER = "interrupted", "the trace could not be written", "seconds are over"
"""Reasons for the end of a run, or parts of them: such a run can go on."""


class Ending:
    """Is shown how far the run has come, and asked by others to end it. The first reason counts."""

    KEPT = ("_lowest", "_scores_since")
    """What a checkpoint keeps of it."""

    def __init__(self, when: StopWhen, recorded: Mapping[str, int] | None = None) -> None:
        """``recorded``: device → after how many of its jobs the run ends, since no more were recorded."""
        self._when, self._recorded = when, recorded or {}
        self.reason: str | None = None
        """None as long as the run goes on."""
        self.interrupted = False
        """Somebody wants it to end at once."""
        self.handing_out = False
        """The rule has ended, and devices are waiting for the final model."""
        self._lowest, self._scores_since = math.inf, 0

    @property
    def at(self) -> float:
        """The moment at which it ends at the latest."""
        return math.inf if self._when.seconds is None else self._when.seconds

    @property
    def over(self) -> bool:
        """Whether what devices say changes nothing any more."""
        return self.reason is not None and not self.handing_out

    def interrupt(self, reason: str) -> None:
        self.interrupted = True
        self.ask(reason)

    def ask(self, reason: str) -> None:
        """End the run at the next opportunity."""
        self.reason = self.reason or reason

    def look_at_time(self, now: float) -> None:
        if now >= self.at:
            self.ask(f"{self.at:g} {TIME_IS_OVER}")

    def look_at_version(self, version: int) -> None:
        versions = self._when.versions
        if versions is not None and version >= versions:
            self.ask(f"version {versions} is reached")

    def look_at_jobs(self, jobs_of: Callable[[str], int]) -> None:
        """``jobs_of``: how many jobs a device has been sent."""
        for device, recorded in self._recorded.items():
            if jobs_of(device) > recorded:
                self.ask(f"the recording of {device} is used up")

    def look_at_score(self, metrics: Mapping[str, float]) -> None:
        target = self._when.target_accuracy
        if target is not None and metrics.get("accuracy", 0.0) >= target:
            self.ask(f"accuracy {target:g} is reached")
        self._look_at_loss(metrics.get("loss", math.nan))

    def _look_at_loss(self, loss: float) -> None:
        """Early stopping. A loss that is not a number is not a new lowest one either."""
        if loss < self._lowest - self._when.improvement:
            self._lowest, self._scores_since = loss, 0
        else:
            self._scores_since += 1
        patience = self._when.patience
        if patience is not None and self._scores_since >= patience:
            self.ask(f"the loss has not fallen for {patience} scores")
