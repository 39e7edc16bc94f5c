"""How many devices are in flight, and which device is started when a place is free.

Theory of operation
    A pace reports each device that becomes idle (``starts``) or leaves (``withdraw``). Idle devices are in a pool; a
    present device that is not in the pool is in flight: it works, or it waits for the version with its update. So the
    number of free places is known without looking at any device, and an idle device costs nothing.
    Without ``in_flight`` there is no pool: every device that becomes idle is started again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from aggregator.pacing.idle_pools import IdlePool, PermutedPool, RoundRobinPool, WeightedPool
from aggregator.strategy import Server, Strategy
from testbed.common.parameters import ParameterError, param, parameter_of

SAMPLINGS = ("uniform", "round-robin", "by_samples")
_ROUNDING = 1e-9  # 0.29 · 100 is 28.999… in binary


@dataclass(kw_only=True)
class Participants(Strategy):
    """Base of all paces: all devices are in flight, or as many as ``in_flight`` says."""

    in_flight: float | None = param(
        None, "devices in flight: a number or, below 1, a fraction of the present ones; unset: all", above=0
    )
    sampling: str | None = param(
        None,
        "how an idle device is drawn for a free place: at random, in turn, or with a probability ∝ samples;"
        " unset: uniform",
        choices=SAMPLINGS,
    )

    _pool: IdlePool | None = field(default=None, init=False, repr=False)

    @property
    def draws(self) -> bool:
        """Whether devices are drawn from a pool of idle ones."""
        return self.in_flight is not None

    def places(self, devices: int) -> int:
        """Return how many of so many devices may be in flight. It may be more than there are."""
        if self.in_flight is None:
            return devices
        return fraction_of(self.in_flight, devices) if self.in_flight < 1 else int(self.in_flight)

    def check(self, devices: int) -> None:
        wanted = self.in_flight
        if wanted is None:
            if self.sampling is not None and self.places(devices) >= devices:
                raise ParameterError("sampling", f"is {self.sampling}, but all devices are in flight: set in_flight")
            return
        if wanted > 1 and wanted % 1:
            raise ParameterError("in_flight", f"is {wanted:g}; it must be a whole number, or a fraction below 1")
        if wanted > devices:
            allowed = f"at most {devices}, the devices of the fleet"
            raise ParameterError("in_flight", f"is {wanted:g}; it must be {allowed}: lower it, or add devices")

    def starts(self, idle: Iterable[str], server: Server) -> list[str]:
        """Return the devices to start now that those in ``idle`` have become idle: they, or devices that are drawn."""
        if not self.draws:
            return list(idle)
        self.enter(idle, server)
        present = len(server.devices)
        in_flight = present - len(self.pool)
        return self.pool.draw(max(self.places(present) - in_flight, 0), server.random)

    def enter(self, idle: Iterable[str], server: Server) -> None:
        """Put devices into the pool, if devices are drawn from one."""
        if self.draws:
            for device in idle:
                self.pool.add(device, server.devices[device].samples)

    def withdraw(self, device: str) -> None:
        """Forget a device that has left."""
        if self.draws:
            self.pool.discard(device)

    @property
    def pool(self) -> IdlePool:
        """The idle devices that may be drawn."""
        if self._pool is None:
            self._pool = self.new_pool()
        return self._pool

    def new_pool(self) -> IdlePool:
        """Return an empty pool for ``sampling``."""
        if self.sampling == "round-robin":
            return RoundRobinPool()
        return WeightedPool(by_samples=self.sampling == "by_samples")


@dataclass(kw_only=True)
class FractionInFlight(Participants):
    """Participants as the papers give them: a fraction C of the devices. ``in_flight`` replaces it."""

    fraction: float = param(1.0, "C: share of the devices in flight", above=0, at_most=1)

    @property
    def draws(self) -> bool:
        """Devices are drawn from a pool, whatever the fraction."""
        return True

    def new_pool(self) -> IdlePool:
        """Return an empty pool for ``sampling``. With ``fraction`` alone, a permutation is drawn."""
        return PermutedPool() if self.in_flight is None and self.sampling is None else super().new_pool()

    def places(self, devices: int) -> int:
        """Return how many of so many devices may be in flight: max(⌊C·N⌋, 1), unless ``in_flight`` is set."""
        return super().places(devices) if self.in_flight is not None else fraction_of(self.fraction, devices)

    def check(self, devices: int) -> None:
        super().check(devices)
        if self.in_flight is not None and self.fraction != parameter_of(type(self), "fraction").default:
            problem = f"is {self.fraction:g}, but in_flight is {self.in_flight:g}: leave one of them out"
            raise ParameterError("fraction", problem)


def fraction_of(fraction: float, devices: int) -> int:
    """max(⌊C·N⌋, 1)."""
    return max(math.floor(fraction * devices + _ROUNDING), 1)
