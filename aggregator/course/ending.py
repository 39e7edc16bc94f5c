"""Whether the run is over, and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from aggregator.course.recorded_order import RecordedOrder
from aggregator.engine.arrivals import Arrivals
from aggregator.engine.engine import Engine
from testbed.profile.schema import StopWhen

INTERRUPTED, UNWRITABLE, TIME_IS_OVER = "interrupted", "the trace could not be written", "seconds are over"
"""Reasons for the end of a run, or parts of them. Such a run can be resumed."""


class Ending:
    """Decides from the progress of the run, and from requests, when the run ends. The first reason counts."""

    KEPT = ("_lowest", "_scores_since")
    """What a checkpoint keeps."""

    def __init__(self, when: StopWhen, recorded: Mapping[str, int] | None = None) -> None:
        """``recorded``: device → number of its recorded jobs, if the run ends with the first job beyond them."""
        self._when, self._recorded = when, recorded or {}
        self.reason: str | None = None
        """None while the run goes on."""
        self.interrupted = False
        """The run must end at once."""
        self.broadcasting = False
        """The run of the strategy has ended, and devices still receive the final model."""
        self.depends_on_progress = when.versions is not None or bool(self._recorded)
        """Whether the number of versions or of jobs can end the run."""
        self._lowest, self._scores_since = math.inf, 0

    @property
    def at(self) -> float:
        """The moment at which the run ends at the latest."""
        return math.inf if self._when.seconds is None else self._when.seconds

    @property
    def over(self) -> bool:
        """Whether messages of devices have no effect any more."""
        return self.reason is not None and not self.broadcasting

    def interrupt(self, reason: str) -> None:
        """End the run at once."""
        self.interrupted = True
        self.request(reason)

    def request(self, reason: str) -> None:
        """End the run at the next opportunity."""
        self.reason = self.reason or reason

    def check_time(self, now: float) -> None:
        if now >= self.at:
            self.request(f"{self.at:g} {TIME_IS_OVER}")

    def check_version(self, version: int) -> None:
        versions = self._when.versions
        if versions is not None and version >= versions:
            self.request(f"version {versions} is reached")

    def check_jobs(self, jobs_of: Callable[[str], int]) -> None:
        """``jobs_of`` returns how many jobs a device has been sent."""
        for device, recorded in self._recorded.items():
            if jobs_of(device) > recorded:
                self.request(f"the recording of {device} is used up")

    def check_recording(self, arrivals: Arrivals | RecordedOrder, engine: Engine) -> None:
        """End a strict replay after its last recorded arrival, or when the next one cannot come any more."""
        wake_at = math.inf if engine.wake_at is None else engine.wake_at
        expected = arrivals.next_arrival
        if arrivals.is_over(engine.wakes, wake_at):
            self.request("the recording is over")
        elif expected is not None and engine.ticket_of(expected.device) != expected.ticket and wake_at >= expected.t:
            # no wake precedes this arrival, and no device works on its ticket
            gone = not engine.is_present(expected.device)
            why = "the device has gone" if gone else "the device does not work on this ticket"
            self.request(f"the recording has ticket {expected.ticket} of {expected.device} next, but {why}")

    def check_score(self, metrics: Mapping[str, float]) -> None:
        target = self._when.target_accuracy
        if target is not None and metrics.get("accuracy", 0.0) >= target:
            self.request(f"accuracy {target:g} is reached")
        self._check_loss(metrics.get("loss", math.nan))

    def _check_loss(self, loss: float) -> None:
        """Early stopping. A loss that is not a number is no improvement."""
        if loss < self._lowest - self._when.improvement:
            self._lowest, self._scores_since = loss, 0
        else:
            self._scores_since += 1
        patience = self._when.patience
        if patience is not None and self._scores_since >= patience:
            self.request(f"the loss has not fallen for {patience} scores")
