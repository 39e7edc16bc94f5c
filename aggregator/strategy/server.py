"""What a strategy can read: the run, its devices and, in a radio cell, the forecast of uploads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from testbed.wire.messages import Job, Update, Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """What the aggregator knows of a device that is present."""

    name: str
    samples: int
    keeps_base: bool = False
    """Whether it goes on with the model that it had, where a download is lost."""


class Forecast(Protocol):
    """What is known of the radio cell, and of jobs that have not begun yet."""

    @property
    def bandwidth(self) -> float:
        """Hertz that the devices share."""

    def snr(self, device: str, version: int) -> float:
        """p·h/σ² of a device in the round that follows this version."""

    def seconds(self, device: str, job: Job) -> float:
        """What download and computing of a job will take, if nothing goes wrong."""

    def heard(self, update: Update) -> None:
        """For the engine: an update has come, and tells what its computing took."""


class Server(Protocol):
    """A strategy's read-only view of the run."""

    @property
    def now(self) -> float:
        """Emulated seconds since the run began."""

    @property
    def version(self) -> int:
        """Global updates applied so far."""

    @property
    def model(self) -> Vector:
        """The current model. Read-only: return a new one."""

    @property
    def devices(self) -> Mapping[str, DeviceInfo]:
        """The devices that are present."""

    @property
    def known(self) -> Mapping[str, DeviceInfo]:
        """Every device that has ever been present, gone or not."""

    @property
    def busy(self) -> Mapping[str, int]:
        """Device → version that it is training on, for those whose update can still come."""

    @property
    def job(self) -> Job:
        """Local training as the profile asks for it."""

    @property
    def random(self) -> np.random.Generator:
        """The only source of chance a strategy may use."""

    def model_at(self, version: int) -> Vector:
        """A past model. Kept as long as a device trains on it, or an update based on it awaits a decision."""

    def staleness(self, update: Update) -> int:
        """τ: versions made since the update's device downloaded its model. 0 is fresh."""

    @property
    def forecast(self) -> Forecast:
        """For rules that grant rates."""

    def remaining(self, device: str, *, by_beats: bool = False) -> float:
        """T^rem: seconds that a busy device will compute yet; 0 if it has asked for a grant, and else above it.

        ``by_beats``: reckoned from the progress in its last heartbeat, which comes when the host pleases.
        """
