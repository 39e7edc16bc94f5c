"""What a strategy can answer."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from aggregator.strategy.orders import Order
from testbed.wire.messages import Vector
from testbed.wire.training_job import Job


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine should do. The default is nothing."""

    model: Vector | None = None
    """The model of a new version; None makes no version. The same model again is an empty iteration."""
    applied: Mapping[int, float] = msgspec.field(default_factory=dict)
    """Ticket → weight of each update in ``model``, used for the first time or again."""
    rejected: Mapping[int, str] = msgspec.field(default_factory=dict)
    """Ticket → reason, for each update that will never be used."""
    train: Mapping[str, Job] = msgspec.field(default_factory=dict)
    """Dispatch the current model (after ``model``) to these devices."""
    wake_at: float | None = None
    """Call ``on_wake`` at this moment, which may be now. None keeps the moment that was set before."""
    orders: tuple[Order, ...] = ()
    """Actions that only some strategies need: see ``aggregator.strategy.orders``."""


class Reject(Exception):
    """Raised by a strategy that does not use an update. The text is the reason."""
