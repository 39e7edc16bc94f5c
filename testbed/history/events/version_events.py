"""Events of a strategy: versions, rounds, plans for a cell, and clusters."""

from __future__ import annotations

from testbed.common.fields import Number
from testbed.history.events.event import Event, TicketEvent


class Planned(Event, frozen=True, kw_only=True):
    """A round begins in which these devices upload, in the order in which they finish computing."""

    version: int
    """t: the number of versions so far."""
    devices: list[str]
    """S_t; K_t is their number."""
    shares: list[Number]
    remaining: list[Number]
    """The seconds of computing that were expected to remain for each."""
    seconds: Number
    """The planned length of the round."""
    queue: Number
    """q_t."""
    spent: Number
    budget: Number
    """Seconds of all previous rounds; seconds that all rounds may take."""


class Aggregated(Event, frozen=True, kw_only=True):
    """A version was made from these tickets, with their weights (null: not finite) and staleness."""

    version: int
    tickets: list[int]
    weights: list[Number | None]
    staleness: list[int]


class Clustered(Event, frozen=True, kw_only=True):
    """Devices were grouped into clusters by their updates to this version.

    ``purity``: share of devices with the same labels as most of their cluster; null if the data has no labels.
    """

    version: int
    clusters: list[list[str]]
    purity: Number | None


class Grouped(Event, frozen=True, kw_only=True):
    """A cluster has this head and these members from now on; a new head gets a new ``ticket_range``."""

    cluster: int
    ticket_range: int
    head: str
    members: list[str]
    quorum: int


class Merged(TicketEvent, frozen=True, kw_only=True):
    """These tickets of a head's range are part of the version that was just made, through the head's own ``ticket``.

    ``weights`` (null: not finite) are those in the head's update.
    """

    tickets: list[int]
    weights: list[Number | None]
    staleness: list[int]


class Round(Event, frozen=True, kw_only=True):
    """A round, as the strategy's paper counts them, has ended: its devices, and the seconds that each computed."""

    number: int
    devices: list[str]
    seconds: list[Number]
