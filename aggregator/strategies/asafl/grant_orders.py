"""The order of a strategy that plans uploads in a radio cell."""

from __future__ import annotations

from dataclasses import dataclass

from aggregator.strategy.orders import EngineActions, Order
from testbed.history.events.version_events import Planned


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRates(Order):
    """Begin a round: grant each of its devices a rate for its upload.

    The devices must be busy after the models of the same decision are dispatched, and have no grant yet.
    """

    devices: tuple[str, ...]
    rates: tuple[float, ...]
    """Bits per second."""
    shares: tuple[float, ...]
    remaining: tuple[float, ...]
    """Seconds until each device is expected to finish computing."""
    seconds: float
    """Expected length of the round."""
    queue: float
    spent: float
    budget: float

    def after_dispatch(self, engine: EngineActions) -> None:
        engine.record(
            Planned(
                t=engine.now,
                version=engine.version,
                devices=list(self.devices),
                shares=list(self.shares),
                remaining=list(self.remaining),
                seconds=self.seconds,
                queue=self.queue,
                spent=self.spent,
                budget=self.budget,
            )
        )
        for device, rate, share in zip(self.devices, self.rates, self.shares, strict=True):
            engine.grant(device, rate, share)
