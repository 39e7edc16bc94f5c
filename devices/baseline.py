"""What a device remembers so that the server need not: the gradient that the server has of it.

Chen, Yi, Shin, Nallanathan: Adaptive Semi-Asynchronous Federated Learning over Wireless Networks. 2024, Algorithm 4,
line 16. The server's side is ``aggregator.strategies.asafl.gradient_memory``.

Rule
    upload D = Δ − G, where G is what the server has; 0 at first
    G ← G + D once the server has said that it took it

Departures
    In exact arithmetic G + D is Δ, the last gradient, as the paper has it. In single precision it is Δ but for the
    rounding of D, and it is what the server has: each upload makes good for the rounding of the one before. With Δ in
    its place, what is lost in rounding would add up on the server, upload by upload.
    Algorithm 4 replaces G when it uploads. An upload may be lost, or be refused: G is replaced when the server says so.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from testbed.wire.messages import Vector


class Baseline:
    """One device's memory. Of its uploads, one at a time is undecided."""

    def __init__(self, size: int) -> None:
        self._known: npt.NDArray[np.float64] = np.zeros(size)
        """G: the sum of all differences that were taken, in the precision in which the server adds them up."""
        self._since = 0
        self._sent: tuple[int, Vector] | None = None

    def difference(self, ticket: int, delta: Vector) -> tuple[Vector, int]:
        """What is to be uploaded for a ticket, and the ticket that it is counted from.

        An upload for an older ticket that was not told to have been taken counts as lost.
        """
        difference: Vector = (delta - self._known).astype(np.float32)
        difference.flags.writeable = False
        self._sent = ticket, difference
        return difference, self._since

    def told(self, baseline: int) -> None:
        """The server says which ticket of ours it took last; it says so again and again."""
        if self._sent is not None and self._sent[0] == baseline:
            self._known += self._sent[1]
            self._since, self._sent = baseline, None
