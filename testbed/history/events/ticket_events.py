"""Events of tickets, recorded by the aggregator or cluster head that gave them out."""

from __future__ import annotations

from typing import TypeAlias

from testbed.common.fields import Count, Measure, Number, Seconds
from testbed.history.events.event import Event, TicketEvent


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


class Progressed(TicketEvent, frozen=True, kw_only=True):
    """A heartbeat reported the part of a job that is done. Recorded only for strategies that use it."""

    progress: Measure


class Adopted(TicketEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The model of this ticket has reached the head of a cluster, which works on it from ``t`` on.

    ``due``: when its download ended. ``t`` is later if the head had handled a later message before.
    """

    due: Seconds
    joined: list[str] = []  # noqa: RUF012  msgspec gives each event its own
    """With the first model of a cluster: the members that were there, in the order in which they joined the head."""


class Carried(TicketEvent, frozen=True, kw_only=True):
    """A head has taken over the ticket of a former head, when the device that works on it joined (ADR 28)."""


class Regrouped(Event, frozen=True, kw_only=True):
    """A head has taken over the members and the quorum of the next *Grouped* event of its ticket range."""

    device: str
    ticket_range: Count


class Paused(Event, frozen=True, kw_only=True):
    """A head has been asked for a gradient, for a clustering: it merges nothing more until its next model."""

    device: str
    ticket_range: Count


HeadEvent: TypeAlias = (
    Dispatched | Resent | Arrived | Ignored | Rejected | Lost | Superseded | Adopted | Carried | Regrouped | Paused
)
"""Events that cluster heads report: about the tickets they give out, models that arrive, and changes of members."""

UPLOAD_GIVEN_UP = "its upload was given up"
"""The reason of a ticket that is lost because its device does not try again."""
