"""The present job of a device, and the suspension that is under way."""

from __future__ import annotations

import enum
from bisect import bisect_right
from dataclasses import dataclass

from devices.compute.pace import Pace
from devices.compute.trainer import Computation
from devices.upload_retry import PendingUpload
from testbed.emulation.faults import PlannedSuspension
from testbed.wire.messages import KILLED, Train


class State(enum.StrEnum):
    IDLE = "idle"
    DOWNLOADING = "downloading"
    TRAINING = "training"
    WAITING = "waiting"
    UPLOADING = "uploading"
    SUSPENDED = "suspended"
    KILLED = KILLED


@dataclass(slots=True, kw_only=True)
class Work(PendingUpload):
    """The present job, and its upload once it is computed."""

    train: Train
    steps: int
    computing: Computation
    pace: Pace
    started: float
    suspension: PlannedSuspension | None
    done: int = 0
    """Steps that are computed. As a whole, a job is computed at its beginning, and again after its suspension."""
    losses: float = 0.0
    is_whole: bool = False
    """Whether all steps up to the suspension, or to the end, are computed as one (on a virtual clock)."""

    def compute(self) -> None:
        """Compute the next step, or all steps up to the suspension or the end."""
        if not self.is_whole:
            self.losses += self.computing.step()
            self.done += 1
        elif self.suspension is not None:
            self.done = self.suspension.after(self.steps)
        else:
            self.done = self.steps

    def done_by(self, moment: float) -> int:
        """Return how many steps are computed at ``moment``; of those that are computed as one, how many have begun."""
        if not self.is_whole:
            return self.done
        return bisect_right(range(self.done), moment, key=self.pace.deadline)

    @property
    def waits(self) -> bool:
        """Whether the update is computed, but waits for a grant."""
        return self.update is not None and self.train.grant and self.granted is None

    @property
    def suspends_now(self) -> bool:
        """Whether the planned suspension begins after the last step."""
        return self.suspension is not None and self.done >= self.suspension.after(self.steps)


@dataclass(slots=True, kw_only=True)
class Suspension:
    """A suspension under way."""

    started: float
    until: float
    asked: float
    away: bool = False
    """True for an absence: by the availability trace or by the script. Transfers count it in from their start."""
