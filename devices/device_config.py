"""What the launcher passes to a device process and to a canary process."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.host.cgroups import CpuQuota
from testbed.profile.fleet import DeviceSpec
from testbed.wire.credentials import Credential
from testbed.wire.messages import Job

GRAIN_SECONDS = 0.05
"""Host seconds: deadlines of one job that are closer than this are checked together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejoining:
    """When a device that was dead is there again: forked a little before, it waits for its time."""

    at: float
    origin: float
    """Time zero of the run, on CLOCK_MONOTONIC: who is there from the start is told when the run begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceConfig:
    spec: DeviceSpec
    core: int
    endpoint: str
    seed: int
    dilation: float
    beat: float
    job: Job
    """What most of its jobs will be like."""
    recording: str | None = None
    """File with what befell its jobs in a recorded run, which is to befall them again."""
    recording_end: str = "loop"
    begins: float = 0.0
    """The moment at which the run begins for it: later than 0 where it was interrupted and goes on."""
    rejoining: Rejoining | None = None
    credential: Credential | None = None
    heads: str = ""
    """Folder with the endpoints of cluster heads."""
    quota: CpuQuota | float | None = None
    """Share of a core for a process that only computes: by a control group, or by signals. None: paced, or free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryConfig:
    name: str
    core: int
    endpoint: str
    dilation: float
    batch: int
    steps: int
    seconds: float
    """Host seconds that so many steps of so many samples are paced to."""
    every: float
    """Host seconds from one time to the next."""
    credential: Credential | None = None
