"""What a rule does with updates: versions and rounds, and its plans for a cell and for clusters."""

from __future__ import annotations

from testbed.history.events.event import Event, TicketEvent
from testbed.wire.messages import Number


class Planned(Event, frozen=True, kw_only=True):
    """A round begins in which these devices upload, in the order in which they are done."""

    version: int
    """t: versions that there are."""
    devices: list[str]
    """S_t; K_t is how many they are."""
    shares: list[Number]
    remaining: list[Number]
    """Seconds that each was thought to compute yet."""
    seconds: Number
    """That the round is to take."""
    queue: Number
    """q_t."""
    spent: Number
    budget: Number
    """Seconds of all rounds before it; that all rounds may take."""


class Aggregated(Event, frozen=True, kw_only=True):
    """A version came to be, out of these tickets with these weights (null: not finite) and stalenesses."""

    version: int
    tickets: list[int]
    weights: list[Number | None]
    staleness: list[int]


class Clustered(Event, frozen=True, kw_only=True):
    """Devices were put into clusters, by what they had learned from this version.

    ``purity``: share of them that have the same labels as most of their cluster; null where the data has no labels.
    """

    version: int
    clusters: list[list[str]]
    purity: Number | None


class Grouped(Event, frozen=True, kw_only=True):
    """A cluster has this head and these members from now on; ``book`` is another one whenever the head is."""

    cluster: int
    ticket_range: int
    head: str
    members: list[str]
    quorum: int


class Merged(TicketEvent, frozen=True, kw_only=True):
    """These tickets of a head's book went into the version that was just made, through the head's own ``ticket``.

    With these weights (null: not finite) in what the head made of them, and stalenesses.
    """

    tickets: list[int]
    weights: list[Number | None]
    staleness: list[int]


class Round(Event, frozen=True, kw_only=True):
    """A round, as the rule's paper counts them, has ended: who was in it, and how long each computed, in seconds."""

    number: int
    devices: list[str]
    seconds: list[Number]
