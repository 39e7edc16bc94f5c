"""The aggregator: strategies decide, the engine acts. This package exports what a strategy of your own needs."""

from aggregator.pacing import DelaySpread, EveryK, EveryRound, EveryTick, EveryUpdate, KMixed, KTrimmed
from aggregator.strategy import Decision, DeviceInfo, Reject, Server, Strategy
from testbed.common.parameters import ParameterError, param
from testbed.wire.messages import Update, Vector
from testbed.wire.training_job import Job

__all__ = [
    "Decision",
    "DelaySpread",
    "DeviceInfo",
    "EveryK",
    "EveryRound",
    "EveryTick",
    "EveryUpdate",
    "Job",
    "KMixed",
    "KTrimmed",
    "ParameterError",
    "Reject",
    "Server",
    "Strategy",
    "Update",
    "Vector",
    "param",
]
