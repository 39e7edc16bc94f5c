"""The order of a strategy that plans uploads over a radio cell."""

from __future__ import annotations

from dataclasses import dataclass

from aggregator.strategy.orders import EngineActions, Order
from testbed.history.events.version_events import Planned


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRates(Order):
    """The devices that upload in the round that begins, each with its share of the band.

    They must be busy when the models of the same decision are sent, and have no grant yet.
    """

    devices: tuple[str, ...]
    rates: tuple[float, ...]
    """Bits per second."""
    shares: tuple[float, ...]
    remaining: tuple[float, ...]
    """Seconds that each is expected to compute yet."""
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
