"""What a strategy can answer."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from aggregator.strategy.orders import Order
from testbed.wire.messages import Job, Vector


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done. The default is: nothing."""

    model: Vector | None = None
    """A new version, if not None (the same model again is an iteration that changed nothing)."""
    applied: Mapping[int, float] = msgspec.field(default_factory=dict)
    """Ticket → weight of each update that goes into ``model``, for the first time or again."""
    rejected: Mapping[int, str] = msgspec.field(default_factory=dict)
    """Ticket → reason, for each update that will never be used."""
    train: Mapping[str, Job] = msgspec.field(default_factory=dict)
    """Dispatch the current model (after ``model``) to these devices."""
    wake_at: float | None = None
    """Call ``on_wake`` at this moment (now: again at once); None leaves an earlier wish standing."""
    orders: tuple[Order, ...] = ()
    """What only some strategies want: see ``aggregator.strategy.orders``."""


class Reject(Exception):
    """Raised by a strategy for an update that it will not use; the text is the reason."""
