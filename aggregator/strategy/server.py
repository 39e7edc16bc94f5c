"""What a strategy can read: the run, its devices and, in a radio cell, the forecast of uploads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from testbed.wire.messages import Update, Vector
from testbed.wire.training_job import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """What the aggregator knows of a device that is present."""

    name: str
    samples: int
    keeps_base: bool = False
    """Whether it trains on the model that it has if a download is lost."""


class Forecast(Protocol):
    """What is known about the radio cell, and about jobs in advance."""

    @property
    def bandwidth(self) -> float:
        """Hertz that the devices share."""

    def snr(self, device: str, version: int) -> float:
        """p·h/σ² of a device in the round that follows this version."""

    def upload_bits(self, device: str, size: int) -> int:
        """Bits that a device sends for an update of ``size`` numbers, compressed if its updates are."""

    def seconds(self, device: str, job: Job) -> float:
        """Seconds of download and computing of a job, without faults."""

    def observe(self, update: Update) -> None:
        """Learn from the computing time of an update. The engine calls this."""


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
        """Every device that has been present so far."""

    @property
    def busy(self) -> Mapping[str, int]:
        """Device → version that it trains on, for the devices whose update can still arrive."""

    @property
    def job(self) -> Job:
        """Local training as the profile describes it."""

    @property
    def random(self) -> np.random.Generator:
        """The only random generator that a strategy may use."""

    def model_at(self, version: int) -> Vector:
        """A past model. It is kept while a device trains on it or an update based on it awaits a decision."""

    def staleness(self, update: Update) -> int:
        """τ: versions made since the update's device downloaded its model. 0 is fresh."""

    @property
    def forecast(self) -> Forecast:
        """For strategies that grant rates."""

    def remaining(self, device: str, *, by_heartbeats: bool = False) -> float:
        """T^rem: seconds that a busy device will still compute; 0 if it has asked for a grant, else above 0.

        ``by_heartbeats``: estimated from the progress in its last heartbeat, whose moment depends on the host.
        """
