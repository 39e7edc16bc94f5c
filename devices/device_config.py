"""What the launcher passes to a device process and to a canary process."""

from __future__ import annotations

from dataclasses import dataclass, field

from testbed.host.priority import Priority
from testbed.host.quotas.cpu_quota import CpuQuota
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import UpdateBound
from testbed.wire.credentials import Credential
from testbed.wire.training_job import Job

GRAIN_SECONDS = 0.05
"""Host seconds: deadlines of one job that are closer than this are checked together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejoining:
    """When a killed device joins again. Its process is forked a little earlier, and waits."""

    at: float
    origin: float
    """Time zero of the run, on CLOCK_MONOTONIC. Devices that join at the start get it from Welcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceConfig:
    """Everything that the process of a device needs."""

    spec: DeviceSpec
    cores: tuple[int, ...]
    """The cores that its process may use: one, if it has deadlines."""
    endpoint: str
    priority: Priority = Priority.DEVICE
    seed: int
    dilation: float
    heartbeat_seconds: float
    job: Job
    """A typical job; for the warm-up."""
    recording: str | None = None
    """File with the jobs of a recorded run, which are replayed."""
    recording_end: str = "loop"
    begins: float = 0.0
    """The moment at which the device begins: later than 0 if the run is resumed from a checkpoint."""
    rejoining: Rejoining | None = None
    credential: Credential | None = None
    heads: str = ""
    """Folder with the endpoints of the cluster heads."""
    bound: UpdateBound = field(default_factory=UpdateBound)
    """For the updates of its members, if the device is a cluster head."""
    quota: CpuQuota | float | None = None
    """Share of a core for the worker process: by a control group, or by signals. None: paced, or not throttled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryConfig:
    """Everything that the canary needs."""

    name: str
    core: int
    priority: Priority = Priority.DEVICE
    endpoint: str
    dilation: float
    job: Job
    batch: int
    steps: int
    seconds: float
    """Host seconds that ``steps`` steps of ``batch`` samples are paced to."""
    every: float
    """Host seconds from one sample to the next."""
    credential: Credential | None = None
