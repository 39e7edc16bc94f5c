"""What a forked process can become, and what the launcher tells it. Started by name: see ``testbed.child``."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.profile import DeviceSpec, Experiment


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceConfig:
    role = "devices.process:main"
    spec: DeviceSpec
    core: int
    endpoint: str
    seed: int
    beat: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatorConfig:
    role = "aggregator.process:main"
    experiment: Experiment
    core: int
    endpoint: str
    run_folder: str
    status_file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorConfig:
    role = "testbed.evaluate:main"
    core: int
    endpoint: str


RoleConfig = DeviceConfig | AggregatorConfig | EvaluatorConfig
