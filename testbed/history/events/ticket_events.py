"""Events of tickets, recorded by the aggregator or cluster head that gave them out."""

from __future__ import annotations

from typing import TypeAlias

from testbed.common.fields import Count, Measure, Number, Seconds
from testbed.history.events.event import TicketEvent


class Dispatched(TicketEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A new ticket; ``steps`` is the local work it asks for, 0 for the final model.

    ``for_cluster``: the model is for a whole cluster and the device is its head, which gives out tickets itself.
    ``gradient``: for a clustering, the device uploads the last update that it has. No model is sent; ``steps`` is 0.
    """

    version: Count
    steps: Count
    for_cluster: bool = False
    gradient: bool = False


class Resent(TicketEvent, frozen=True, kw_only=True):
    """The same ticket again: its download was lost."""


class Asked(TicketEvent, frozen=True, kw_only=True):
    """A device finished computing at ``due`` and waits for a grant. The other fields are as in Arrived."""

    due: Seconds
    received: Seconds
    handled: Seconds


class Granted(TicketEvent, frozen=True, kw_only=True):
    """The strategy gave a device a share of the band: it uploads at ``rate`` bits per second."""

    rate: Measure
    share: Measure


class Arrived(TicketEvent, frozen=True, kw_only=True, omit_defaults=True):
    """An update with a valid ticket reached the strategy. A loss that is not finite is null.

    It counts from ``t``: when the emulated uplink should have delivered it (``due``), or later if it was ``received``
    later or a later event had already been handled. ``handled`` is when the aggregator process took it up.
    """

    due: Seconds
    received: Seconds
    handled: Seconds
    bytes: Count
    version: Count
    staleness: Count
    loss: Number | None
    started: Seconds | None = None
    finished: Seconds | None = None
    """Start and end of its computing, as the device reports them; a strategy may use them."""
    clipped: Number | None = None
    """The norm of its delta, if that was scaled down to ``aggregator.clip``; omitted if it was not."""


class Ignored(TicketEvent, frozen=True, kw_only=True):
    """An update or a request for a grant whose ticket had already ended."""


class Rejected(TicketEvent, frozen=True, kw_only=True):
    reason: str


class Superseded(TicketEvent, frozen=True, kw_only=True):
    """The strategy sent a newer model to a busy device, or the final model was sent to it."""


class Delivered(TicketEvent, frozen=True, kw_only=True):
    """The final model has reached the device, which ends its ticket."""


class Lost(TicketEvent, frozen=True, kw_only=True):
    reason: str


HeadEvent: TypeAlias = Dispatched | Resent | Arrived | Ignored | Rejected | Lost | Superseded
"""Events that cluster heads report about the tickets they give out."""
