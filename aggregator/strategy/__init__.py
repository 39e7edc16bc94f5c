"""The interface of a strategy: what it reads, what it answers, and its base class."""

from aggregator.strategy.base import Strategy
from aggregator.strategy.decision import Decision, Reject
from aggregator.strategy.orders import EngineActions, Merged, Order
from aggregator.strategy.server import DeviceInfo, Forecast, Server

__all__ = ["Decision", "DeviceInfo", "EngineActions", "Forecast", "Merged", "Order", "Reject", "Server", "Strategy"]
