"""Events of a strategy: versions, rounds, plans for a cell, and clusters."""

from __future__ import annotations

from testbed.common.fields import Count, Measure, Number, Seconds
from testbed.history.events.event import Event, TicketEvent


class Planned(Event, frozen=True, kw_only=True):
    """A round begins in which these devices upload, in the order in which they finish computing."""

    version: Count
    """t: the number of versions so far."""
    devices: list[str]
    """S_t; K_t is their number."""
    shares: list[Measure]
    remaining: list[Seconds]
    """The seconds of computing that were expected to remain for each."""
    seconds: Seconds
    """The planned length of the round."""
    queue: Measure
    """q_t."""
    spent: Seconds
    budget: Seconds
    """Seconds of all previous rounds; seconds that all rounds may take."""


class Aggregated(Event, frozen=True, kw_only=True):
    """A version was made from these tickets, with their weights (null: not finite) and staleness."""

    version: Count
    tickets: list[Count]
    weights: list[Number | None]
    staleness: list[Count]


class Clustered(Event, frozen=True, kw_only=True):
    """Devices were grouped into clusters by their updates to this version.

    ``purity``: share of devices with the same labels as most of their cluster; null if the data has no labels.
    """

    version: Count
    clusters: list[list[str]]
    purity: Measure | None


class Grouped(Event, frozen=True, kw_only=True):
    """A cluster has this head and these members from now on; a new head gets a new ``ticket_range``."""

    cluster: Count
    ticket_range: Count
    head: str
    members: list[str]
    quorum: Count


class Merged(TicketEvent, frozen=True, kw_only=True):
    """These tickets of a head's range are part of the version that was just made, through the head's own ``ticket``.

    ``weights`` (null: not finite) are those in the head's update.
    """

    tickets: list[Count]
    weights: list[Number | None]
    staleness: list[Count]


class Round(Event, frozen=True, kw_only=True):
    """A round, as the strategy's paper counts them, has ended: its devices, and the seconds that each computed."""

    number: Count
    devices: list[str]
    seconds: list[Seconds]
