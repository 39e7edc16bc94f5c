"""Totals of one device: bytes, drops, computing, and the counts of its tickets."""

from __future__ import annotations

from dataclasses import dataclass, field

from testbed.analysis.energy import DeviceEnergy
from testbed.analysis.timeline import ABANDONED, COMPUTING, DEAD, DOWNLOAD, SUSPENDED, UPLOAD, WAITING


@dataclass(slots=True, kw_only=True)
class DeviceTotals:
    """One device over a whole run. Bytes count every attempt, including lost ones: they were sent.

    A restarted device downloads while its old job still computes: that time counts twice, so the sum of all seconds
    may exceed the length of the run.
    """

    energy: DeviceEnergy
    pid: int = 0
    core: int | None = None
    samples: int = 0
    compress_updates: str = "none"
    jobs: int = 0
    to_aggregator: int = 0
    """Updates that reached the aggregator itself, not the head of a cluster."""
    applied: int = 0
    rejected: int = 0
    lost: int = 0
    superseded: int = 0
    poisoned: int = 0
    """Updates that it falsified before it sent them."""
    drops: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    weight: float = 0.0
    """Sum of the weights that the strategy gave to its updates, over all versions that contain them."""
    first_loss: float | None = None
    last_loss: float | None = None
    """Mean loss of the local steps of its first and its last update."""
    abandoned_s: float = 0.0
    """The busy seconds spent on work that was discarded because a newer model came."""
    asked_s: float = 0.0
    obtained_s: float = 0.0
    """Computing of finished jobs that are paced or throttled: seconds asked, and seconds by the clock."""
    missed: int = 0
    """Steps that missed their deadline."""
    host_cpu_s: float = 0.0
    host_waited_s: float = 0.0
    """Host seconds that its process ran, and that it waited for its core, in the jobs that ended."""
    restarted: set[int] = field(default_factory=set)
    """Superseded tickets whose work is not counted as abandoned yet."""
    trained: int = 0
    last_job_s: float = 0.0
    """The last ticket whose computing ended, and its seconds."""
    staleness: int = 0
    """Sum over its applied updates, without those that it made as a cluster head."""
    stale_updates: int = 0
    """Their number."""

    def finish(self, ticket: int, seconds: float) -> None:
        """Note the end of a job's computing."""
        self.trained, self.last_job_s = ticket, seconds
        if self.restarted:  # a device computes its tickets in order: older ones will not be abandoned any more
            self.restarted = {other for other in self.restarted if other >= ticket}

    def abandon(self, ticket: int, seconds: float) -> None:
        """Count discarded work, once for each ticket, if the strategy superseded that ticket."""
        if ticket in self.restarted:
            self.abandoned_s += seconds
            # a device abandons its tickets in order: older ones never began
            self.restarted = {other for other in self.restarted if other > ticket}

    def count_staleness(self, staleness: int) -> None:
        self.staleness += staleness
        self.stale_updates += 1

    @property
    def busy_s(self) -> float:
        return self.energy.seconds[COMPUTING] + self.energy.seconds[ABANDONED]

    @property
    def download_s(self) -> float:
        return self.energy.seconds[DOWNLOAD]

    @property
    def upload_s(self) -> float:
        return self.energy.seconds[UPLOAD]

    @property
    def waiting_s(self) -> float:
        """Seconds of waiting for a grant to upload."""
        return self.energy.seconds[WAITING]

    @property
    def suspended_s(self) -> float:
        return self.energy.seconds[SUSPENDED]

    @property
    def dead_s(self) -> float:
        """Seconds between a scripted kill and rejoin: the device is not idle and uses no energy."""
        return self.energy.seconds[DEAD]
