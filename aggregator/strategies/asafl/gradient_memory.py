"""Gradient calibration: every version uses the latest gradient of all devices, not only of those in the round.

Chen, Yi, Shin, Nallanathan: Adaptive Semi-Asynchronous Federated Learning over Wireless Networks. 2024, Algorithms 1
and 4, Theorem 2. The device's side of Algorithm 4 is ``devices.baseline``.

Symbols
    N           all devices
    S_t         devices whose updates arrived in round t
    G_n         the latest update Δ = −η·g̃ (4) that was received from device n; 0 before the first
    D_n         the new update − G_n
    Ḡ           (1/N) Σ_n G_n

Rule
    G_n ← Δ_n for n ∈ S_t                                                       (5): ``LatestUpdates``
    x ← x + Ḡ                                                                   Algorithm 1, line 9
    or, with nothing kept but Ḡ:   Ḡ ← Ḡ + (1/N) Σ_{n∈S_t} D_n                  Algorithm 4, line 7

Departures
    Both keep N·Ḡ, in double precision: N may change, and rounding errors would be applied in every version.
    Algorithm 4 assumes that device and server agree on G_n. They do not after a lost upload, so each difference names
    the ticket of its baseline, and each model names the last ticket of the device that the server applied. A difference
    with another baseline would leave an error in the sum forever: it is rejected.
    A device that has lost its baseline (its process died) can therefore not continue: the server does not have its G_n
    and could not subtract it.
"""

from __future__ import annotations

from aggregator.strategy.vectors import Sum, add_scaled, zero_sum
from testbed.wire.messages import Vector


class Mismatch(ValueError):
    """Raised for a difference whose baseline is not the server's; the text says why."""


class Differences:
    """Algorithm 4: the sum only. One vector, and a number for each device."""

    def __init__(self, model: Vector) -> None:
        self._sum = zero_sum(model)
        self._applied: dict[str, int] = {}

    def last_applied(self, device: str) -> int:
        """Return the ticket of the last update of this device in the sum; 0: none. The next Train carries it.

        When that Train is sent, no update of the device may be open: the device would not learn that it was applied.
        """
        return self._applied.get(device, 0)

    def add(self, device: str, ticket: int, difference: Vector, since: int) -> None:
        """Add a difference. Raise Mismatch unless ``since``, the ticket of its baseline, is the last one applied."""
        last_applied = self.last_applied(device)
        if since != last_applied:
            raise Mismatch(f"its baseline is ticket {since}, but {last_applied} was applied last")
        add_scaled(self._sum, 1.0, difference)  # Algorithm 4, line 7
        self._applied[device] = ticket

    @property
    def total(self) -> Sum:
        """N·Ḡ; read-only."""
        return self._sum
