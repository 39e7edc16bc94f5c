"""The present job of a device, and the suspension that is under way."""

from __future__ import annotations

import enum
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
    losses: float = 0.0

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
