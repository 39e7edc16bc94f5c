"""The latest update of each device and their sum, for strategies that use updates again."""

from __future__ import annotations

from aggregator.strategy.vectors import Sum, add_scaled, zero_sum
from testbed.wire.messages import Vector


class LatestUpdates:
    """The latest update of each device. N vectors, and their sum.

    The sum is not computed from N vectors each time: the old update of a device is subtracted and the new one added. It
    is in double precision, because rounding errors would stay in it.
    """

    def __init__(self, model: Vector) -> None:
        self._sum = zero_sum(model)
        self._latest: dict[str, Vector] = {}

    @property
    def devices(self) -> int:
        """The number of devices with an update."""
        return len(self._latest)

    def get(self, device: str) -> Vector | None:
        """Return the update of a device, or None if it has none."""
        return self._latest.get(device)

    def replace(self, device: str, delta: Vector) -> None:
        """Replace the update of a device. The vector is kept and must not change."""
        self.remove(device)
        add_scaled(self._sum, 1.0, delta)
        self._latest[device] = delta

    def remove(self, device: str) -> None:
        """Remove the update of a device, if it has one."""
        old = self._latest.pop(device, None)
        if old is not None:
            add_scaled(self._sum, -1.0, old)

    @property
    def total(self) -> Sum:
        """The sum; read-only."""
        return self._sum
