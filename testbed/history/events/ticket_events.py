"""What becomes of tickets, as whoever gave them out saw it: the aggregator, or a cluster head."""

from __future__ import annotations

from typing import TypeAlias

from testbed.history.events.event import TicketEvent
from testbed.wire.messages import Number


class Dispatched(TicketEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A new ticket; ``steps`` is the local work it asks for, 0 with the final model.

    ``for_cluster``: the model is for a whole cluster, and the device its head. Tickets of the head's own follow.
    """

    version: int
    steps: int
    for_cluster: bool = False


class Resent(TicketEvent, frozen=True, kw_only=True):
    """The same ticket again: its download was lost."""


class Asked(TicketEvent, frozen=True, kw_only=True):
    """A device has computed, at ``due``, and waits to be granted a rate. The rest is as in Arrived."""

    due: Number
    received: Number
    handled: Number


class Granted(TicketEvent, frozen=True, kw_only=True):
    """The rule gave a device a part of the band: it uploads so many bits per second."""

    rate: Number
    share: Number


class Arrived(TicketEvent, frozen=True, kw_only=True):
    """An update with a valid ticket reached the rule. A loss that was not finite is null.

    It counts from ``t``: when the emulated uplink should have delivered it (``due``), unless it was ``received`` later,
    or later things have happened before. ``handled`` is when the aggregator's process took it up.
    """

    due: Number
    received: Number
    handled: Number
    bytes: int
    version: int
    staleness: int
    loss: Number | None
    started: Number | None = None
    finished: Number | None = None
    """Of its computing, as the device told: a rule may reckon with it."""


class Ignored(TicketEvent, frozen=True, kw_only=True):
    """An update, or a request for a grant, whose ticket had been settled before."""


class Rejected(TicketEvent, frozen=True, kw_only=True):
    reason: str


class Superseded(TicketEvent, frozen=True, kw_only=True):
    """The rule restarted a busy device, or the final model was sent to it."""


class Delivered(TicketEvent, frozen=True, kw_only=True):
    """The final model has reached the device: this ticket asked for nothing else."""


class Lost(TicketEvent, frozen=True, kw_only=True):
    reason: str


HeadEvent: TypeAlias = Dispatched | Resent | Arrived | Ignored | Rejected | Lost | Superseded
"""What cluster heads report of the tickets that they give out."""
