"""The aggregator: an engine that acts, strategies that decide. Here are the names that a strategy of your own needs."""

from aggregator.pacing import DelaySpread, EveryK, EveryRound, EveryTick, EveryUpdate, KMixed
from aggregator.strategy import Decision, DeviceInfo, Reject, Server, Strategy
from testbed.common.parameters import ParameterError, param
from testbed.wire.messages import Job, Update, Vector

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
    "ParameterError",
    "Reject",
    "Server",
    "Strategy",
    "Update",
    "Vector",
    "param",
]
