"""What a forked process runs, by the type of its configuration.

Only the template imports this file, and with it the forked processes: these modules import torch.
"""

from __future__ import annotations

from collections.abc import Callable

from aggregator.process import main as aggregator
from aggregator.process.aggregator_config import AggregatorConfig
from devices.device_config import CanaryConfig, DeviceConfig
from devices.process import canary
from devices.process import main as device
from testbed.learning.training.task import Task
from testbed.processes.templates import evaluator
from testbed.processes.templates.configs import EvaluatorConfig, RoleConfig


def run(config: RoleConfig, task: Task, ready: Callable[[str], None]) -> None:
    """Run the role until the run is over. The aggregator and canaries call ``ready``: the launcher waits for it."""
    match config:
        case AggregatorConfig():
            aggregator.main(config, task, ready)
        case DeviceConfig():
            device.main(config, task)
        case CanaryConfig():
            canary.main(config, task, ready)
        case EvaluatorConfig():
            evaluator.main(config, task)
