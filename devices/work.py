"""What a device has in hand: the job, and the suspension that it hangs in."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from devices.compute.pace import Pace
from devices.compute.trainer import Computation
from devices.link import Transfer
from testbed.emulation.faults import PlannedSuspension
from testbed.wire.messages import KILLED, Grant, Train, Update


class State(enum.StrEnum):
    IDLE = "idle"
    DOWNLOADING = "downloading"
    TRAINING = "training"
    WAITING = "waiting"
    UPLOADING = "uploading"
    SUSPENDED = "suspended"
    KILLED = KILLED


@dataclass(slots=True, kw_only=True)
class Work:
    """The job in hand."""

    train: Train
    number: int
    lead: float
    steps: int
    computing: Computation
    pace: Pace
    started: float
    suspension: PlannedSuspension | None
    done: int = 0
    losses: float = 0.0
    update: Update | None = None
    granted: Grant | None = None
    """The rate of its upload, where one is needed; it holds for every attempt."""
    upload: Transfer | None = None
    sent: bool = False
    attempt: int = 0
    retry_at: float = math.inf
    last: float = math.inf
    """When the device dies: an update that would be due after it is never sent, although others are sent ahead."""

    @property
    def waits(self) -> bool:
        """Whether it is computed, and may not be uploaded yet."""
        return self.update is not None and self.train.grant and self.granted is None

    @property
    def suspends_now(self) -> bool:
        return self.suspension is not None and self.done >= self.suspension.after(self.steps)

    @property
    def send_at(self) -> float:
        """When the update must go to the transport in order to be there when it is due."""
        if self.upload is None or self.upload.dropped or self.sent or self.upload.due > self.last:
            return math.inf
        return self.upload.due - self.lead


@dataclass(slots=True, kw_only=True)
class Suspension:
    """A suspension under way."""

    started: float
    until: float
    asked: float
    away: bool = False
    """By the device's availability trace or by the script, so that transfers know of it."""
