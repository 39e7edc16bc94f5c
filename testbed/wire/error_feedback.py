"""Error feedback: what the compression of one update loses is added to the next update of the same device.

Seide, Fu, Droppo, Li, Yu: 1-Bit Stochastic Gradient Descent and its Application to Data-Parallel Distributed Training
of Speech DNNs. Interspeech 2014. For topk: Stich, Cordonnier, Jaggi: Sparsified SGD with Memory. NeurIPS 2018,
arXiv:1809.07599. For any compression: Karimireddy, Rebjock, Stich, Jaggi: Error Feedback Fixes SignSGD and other
Gradient Compression Schemes. ICML 2019, arXiv:1901.09847.

Symbols
    Δ           the delta of an update
    e           the residual: the part of earlier deltas that was not sent; 0 at first
    C           compression and decompression (``compression``)

Rule
    p = Δ + e
    the device sends C(p), which is the delta that the strategy sees
    e ← p − C(p), once the update has reached the strategy

Readings
    The papers lose no messages. Here an update may be dropped and given up, superseded, or rejected because it is
    unfit: then e stays as it was before that update, and its Δ is lost, as without compression. Each Train names the
    last ticket of the device whose update reached the strategy (the event *arrived*), so the device knows. So the sum
    of all deltas that arrived, plus e, is the sum of all Δ of these updates, and e follows from the arrived updates of
    the device alone. What the strategy then does with an update, and ``aggregator.clip``, do not change e.
    e begins with 0 in each process of a device (after a kill, a restart or a resumed run), and when another giver of
    tickets follows: the tickets have another range (EAFL).
    p and e are float32.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from testbed.wire.compression import Compressed, compress, decompress
from testbed.wire.compression_method import NONE
from testbed.wire.messages import Vector
from testbed.wire.ticket_ranges import range_of


class Outgoing(NamedTuple):
    """An update as it is sent."""

    delta: Vector
    """C(p): what the strategy sees."""
    payload: Compressed
    residual: Vector
    """e after this update, if it arrives."""


def outgoing(method: str, delta: Vector, residual: Vector | None) -> Outgoing:
    """Compress an update. ``residual``: e before it; None stands for 0. It depends on its arguments alone."""
    with np.errstate(over="ignore", invalid="ignore"):  # an update that is not finite does not arrive: e stays
        total = delta if residual is None else delta + residual
        payload = compress(method, total)
        sent = decompress(method, payload.data, total.size)
        return Outgoing(sent, payload, total - sent)


class ErrorFeedback:
    """The residual of one device. At most one update is under way."""

    def __init__(self, method: str) -> None:
        self._method = method
        self._residual: Vector | None = None
        self._range = 0
        """The range of the tickets that the residual belongs to."""
        self._sent: tuple[int, Vector] | None = None
        """The ticket of the update under way, and e if it arrives."""

    def begin(self, ticket: int, arrived: int) -> None:
        """Begin a job. ``arrived``: the last ticket of this device whose update reached the strategy."""
        if range_of(ticket) != self._range:
            self._residual, self._range = None, range_of(ticket)
        elif self._sent is not None and self._sent[0] == arrived:
            self._residual = self._sent[1]
        self._sent = None

    def compress(self, ticket: int, delta: Vector) -> tuple[Vector, Compressed | None]:
        """Return the delta that the strategy will see, and how it travels; None: as it is. Once for each ticket."""
        if self._method == NONE:
            return delta, None
        sent, payload, residual = outgoing(self._method, delta, self._residual)
        self._sent = ticket, residual
        return sent, payload
