"""The interface of a strategy: what it reads, what it answers, and its base class."""

from aggregator.strategy.base import Strategy
from aggregator.strategy.decision import Decision, Grouping, Reject, UploadPlan
from aggregator.strategy.server import DeviceInfo, Forecast, Server

__all__ = ["Decision", "DeviceInfo", "Forecast", "Grouping", "Reject", "Server", "Strategy", "UploadPlan"]
