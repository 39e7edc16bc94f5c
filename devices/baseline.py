"""The baseline of a device: what the server has of its gradients, kept on the device so that the server need not.

Chen, Yi, Shin, Nallanathan: Adaptive Semi-Asynchronous Federated Learning over Wireless Networks. 2024, Algorithm 4,
line 16. The server's side is ``aggregator.strategies.asafl.gradient_memory``.

Rule
    upload D = Δ − G, where G is what the server has of this device; 0 at first
    G ← G + D once the server has confirmed that it applied D

Departures
    In exact arithmetic G + D is Δ, the last gradient, as in the paper. In single precision it is Δ except for the
    rounding of D, and it equals what the server has: each upload corrects the rounding of the one before. With Δ in
    its place, rounding errors would add up on the server, upload by upload.
    Algorithm 4 replaces G when it uploads. An upload may be lost or rejected: G is replaced when the server confirms.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from testbed.wire.messages import Vector


class Baseline:
    """The baseline of one device. At most one upload waits for its confirmation."""

    def __init__(self, size: int) -> None:
        self._known: npt.NDArray[np.float64] = np.zeros(size)
        """G: the sum of all applied differences, in the precision in which the server adds them up."""
        self._since = 0
        """The ticket of the last applied difference."""
        self._sent: tuple[int, Vector] | None = None

    def difference(self, ticket: int, delta: Vector) -> tuple[Vector, int]:
        """Return the difference to upload for a ticket, and the ticket of the last applied difference.

        An earlier upload that has not been confirmed counts as lost.
        """
        difference: Vector = (delta - self._known).astype(np.float32)
        difference.flags.writeable = False
        self._sent = ticket, difference
        return difference, self._since

    def confirm(self, ticket: int) -> None:
        """The server reports the last ticket of this device that it applied. It repeats this with every model."""
        if self._sent is not None and self._sent[0] == ticket:
            self._known += self._sent[1]
            self._since, self._sent = ticket, None

    def validate(self) -> None:
        """Raise AssertionError if the upload that waits does not follow the last applied one."""
        if self._sent is not None:
            ticket, difference = self._sent
            assert ticket > self._since, f"baseline: ticket {ticket} waits, but {self._since} has been applied"
            assert difference.size == self._known.size, "baseline: the difference has another size"
