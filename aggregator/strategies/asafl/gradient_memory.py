"""Gradient calibration: every version uses the latest gradient of all devices, whoever has just been heard.

Chen, Yi, Shin, Nallanathan: Adaptive Semi-Asynchronous Federated Learning over Wireless Networks. 2024, Algorithms 1
and 4, Theorem 2. The device's side of Algorithm 4 is ``devices.baseline``.

Symbols
    N           all devices, heard or not
    S_t         those heard in round t
    G_n         the latest update Δ = −η·g̃ (4) that was received of device n; 0 before the first
    D_n         the difference of a new one to G_n
    Ḡ           (1/N) Σ_n G_n

Rule
    G_n ← Δ_n for n ∈ S_t                                                       (5)
    x ← x + Ḡ                                                                   Algorithm 1, line 9
    or, with nothing kept but Ḡ:   Ḡ ← Ḡ + (1/N) Σ_{n∈S_t} D_n                  Algorithm 4, line 7

Departures
    Both keep N·Ḡ, in double precision: N may change, and what rounding left behind would be applied in every version.
    Algorithm 4 takes for granted that device and server agree on what G_n is. They do not if an upload is lost, so each
    difference names the ticket of the update that it is counted from, and the server tells the device which of its
    tickets it took last. A difference that is counted from anything else would be in the sum for ever: it is refused.
    A device that has forgotten everything (its process died) can therefore not go on: the server does not have its G_n
    and could not take it out.
"""

from __future__ import annotations

from aggregator.strategy.vectors import Sum, add_scaled, scaled, zero_sum
from testbed.wire.messages import Vector


class Mismatch(ValueError):
    """A difference that is not counted from what the server has; the text says why."""


class Latest:
    """Algorithm 1: the latest update of each device. N vectors."""

    def __init__(self, model: Vector) -> None:
        self._sum = zero_sum(model)
        self._latest: dict[str, Vector] = {}

    def take(self, device: str, delta: Vector) -> None:
        """The vector is kept: it must not change any more."""
        old = self._latest.get(device)
        if old is not None:
            add_scaled(self._sum, -1.0, old)
        add_scaled(self._sum, 1.0, delta)
        self._latest[device] = delta  # (5)

    @property
    def total(self) -> Sum:
        """N·Ḡ. Not to be written to."""
        return self._sum

    def mean(self, devices: int) -> Vector:
        """Ḡ of so many devices."""
        return scaled(self._sum, 1 / devices)


class Differences:
    """Algorithm 4: the sum only. One vector, and a number for each device."""

    def __init__(self, model: Vector) -> None:
        self._sum = zero_sum(model)
        self._taken: dict[str, int] = {}

    def last_applied(self, device: str) -> int:
        """Ticket of the last update that was taken of this device; 0: none. The device is told with its next Train.

        When it is told, nothing of it may be undecided: what is taken later than that, it does not know of.
        """
        return self._taken.get(device, 0)

    def take(self, device: str, ticket: int, difference: Vector, since: int) -> None:
        """``since``: ticket of the update that the difference is counted from. Raises Mismatch."""
        last_applied = self.last_applied(device)
        if since != last_applied:
            raise Mismatch(f"its difference is counted from ticket {since}, but {last_applied} was taken last")
        add_scaled(self._sum, 1.0, difference)  # Algorithm 4, line 7
        self._taken[device] = ticket

    @property
    def total(self) -> Sum:
        """N·Ḡ. Not to be written to."""
        return self._sum

    def mean(self, devices: int) -> Vector:
        """Ḡ of so many devices."""
        return scaled(self._sum, 1 / devices)
