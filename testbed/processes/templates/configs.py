"""The configurations that the launcher passes to forked processes; ``roles`` maps each type to what it runs."""

from __future__ import annotations

from dataclasses import dataclass

from aggregator.process.aggregator_config import AggregatorConfig
from devices.device_config import CanaryConfig, DeviceConfig
from testbed.host.priority import Priority
from testbed.wire.credentials import Credential


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorConfig:
    cores: tuple[int, ...]
    priority: Priority = Priority.EVALUATOR
    endpoint: str
    credential: Credential | None = None


RoleConfig = DeviceConfig | AggregatorConfig | EvaluatorConfig | CanaryConfig
