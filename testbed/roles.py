"""What a forked process can become, and what the launcher tells it. Started by name: see ``testbed.child``."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.cgroups import Quota
from testbed.fleet import DeviceSpec
from testbed.planner import Plan
from testbed.profile import Experiment


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceConfig:
    role = "devices.process:main"
    spec: DeviceSpec
    core: int
    endpoint: str
    seed: int
    dilation: float
    beat: float
    quota: Quota | float | None = None
    """Share of a core for a process that only computes: by a control group, or by signals. None: paced, or free."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorConfig:
    role = "testbed.evaluate:main"
    core: int
    endpoint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryConfig:
    role = "devices.canary:main"
    name: str
    core: int
    endpoint: str
    dilation: float
    batch: int
    step_seconds: float
    """Host seconds that its step is paced to."""
    every: float
    """Host seconds from one step to the next."""


RoleConfig = DeviceConfig | AggregatorConfig | EvaluatorConfig | CanaryConfig
