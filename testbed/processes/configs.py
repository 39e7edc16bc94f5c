"""The configurations that the launcher passes to the processes it forks; ``roles`` says what each of them runs."""

from __future__ import annotations

from aggregator.config import AggregatorConfig
from devices.config import CanaryConfig, DeviceConfig
from testbed.processes.evaluator import EvaluatorConfig

RoleConfig = DeviceConfig | AggregatorConfig | EvaluatorConfig | CanaryConfig
