"""What a forked process can become, and what the launcher tells it. Started by name: see ``testbed.child``."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.badges import AllowList, Badge
from testbed.cgroups import Quota
from testbed.fleet import DeviceSpec
from testbed.messages import Job
from testbed.planner import Plan
from testbed.profile import Experiment
from testbed.replay import Prepared

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
    role = "devices.process:main"
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
    badge: Badge | None = None
    heads: str = ""
    """Folder with the endpoints of cluster heads."""
    quota: Quota | float | None = None
    """Share of a core for a process that only computes: by a control group, or by signals. None: paced, or free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """A run that was interrupted is to go on from its checkpoint."""

    at: float
    """Emulated seconds: how far it had come by then."""
    dead: frozenset[str] = frozenset()
    """Whom the script had killed by then: nobody waits for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatorConfig:
    role = "aggregator.process:main"
    experiment: Experiment
    plan: Plan
    canaries: tuple[str, ...]
    core: int
    endpoint: str
    run_folder: str
    status_file: str
    allow: AllowList | None = None
    """None: anybody is who he says that he is."""
    replay: Prepared | None = None
    resume: Resumption | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorConfig:
    role = "testbed.evaluate:main"
    core: int
    endpoint: str
    badge: Badge | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryConfig:
    role = "devices.canary:main"
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
    badge: Badge | None = None


RoleConfig = DeviceConfig | AggregatorConfig | EvaluatorConfig | CanaryConfig
