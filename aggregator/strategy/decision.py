"""What a strategy can answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from testbed.wire.messages import Job, Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadPlan:
    """Who uploads in the round that begins, with which part of the band. The fields are those of ``trace.Planned``."""

    devices: tuple[str, ...]
    rates: tuple[float, ...]
    """Bits per second."""
    shares: tuple[float, ...]
    remaining: tuple[float, ...]
    seconds: float
    queue: float
    spent: float
    budget: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """A cluster as it is to be from now on. With another head it begins anew: what the old one held is lost."""

    cluster: int
    head: str
    members: tuple[str, ...]
    """The head among them."""
    quorum: int
    damped: bool = True


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done. The default is: nothing."""

    model: Vector | None = None
    """A new version, if not None (the same model again is an iteration that changed nothing)."""
    train: Mapping[str, Job] = msgspec.field(default_factory=dict)
    """Dispatch the current model (after ``model``) to these devices."""
    applied: Mapping[int, float] = msgspec.field(default_factory=dict)
    """Ticket → weight of each update that goes into ``model`` for the first time, and of those that are used again."""
    rejected: Mapping[int, str] = msgspec.field(default_factory=dict)
    """Ticket → reason, for each update that will never be used."""
    wake_at: float | None = None
    """Call ``on_wake`` at this moment (now: again at once); None leaves an earlier wish standing."""
    plan: UploadPlan | None = None
    """Grant rates to these devices, which are busy after ``train`` and have been granted none."""
    dissolve: bool = False
    """There are no clusters any more: what their members do is superseded."""
    clusters: Sequence[Sequence[str]] | None = None
    """Clusters that were found. For the trace."""
    groups: Sequence[Grouping] = ()
    """Clusters that have changed. Their devices are told before anything is dispatched."""
    leads: Collection[str] = ()
    """Of the devices in ``train``, those that are sent the model for their cluster."""
    up: Vector | None = None
    """Of a cluster head's rule: what ``applied`` adds up to, for the aggregator; there is no new version here."""
    round: Sequence[tuple[str, float]] | None = None
    """A round, as the paper counts them, has ended: its devices, and the seconds that each computed. For the trace."""


class Reject(Exception):
    """Raised by a rule for an update that it will not use; the text is the reason."""
