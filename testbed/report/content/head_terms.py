"""Clusters of a run as plain values: clusterings, heads, and why heads were replaced."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from testbed.history import trace
from testbed.history.event_pass import Handlers
from testbed.wire.ticket_ranges import range_of

NO_ANSWER = "no answer in time"


@dataclass(slots=True, kw_only=True)
class Clustering:
    t: float
    version: int
    clusters: list[list[str]]
    purity: float | None
    heads: dict[int, str] = field(default_factory=dict)
    """Cluster → its first head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    t: float
    cluster: int
    old: str
    new: str
    why: str


@dataclass(slots=True, kw_only=True)
class HeadTerm:
    """A device was the head of a cluster from ``since`` to ``until``; None means the end of the run."""

    head: str
    since: float
    until: float | None = None


class Clusters:
    """A checker that notes clusters and their heads. Stays empty if the strategy has no clusters."""

    def __init__(self) -> None:
        self.clusterings: list[Clustering] = []
        self.replaced: list[Replacement] = []
        self.head_terms: list[HeadTerm] = []
        self.by_heads: Counter[str] = Counter()
        """Head → updates at the aggregator that it made from those of its members."""
        self.by_devices: Counter[str] = Counter()
        """Device → updates of its own that reached the aggregator."""
        self.merged = 0
        """Updates of devices that became part of a version through a head."""
        self._now: dict[int, HeadTerm] = {}
        """Cluster → its present head."""
        self._gone: dict[str, str] = {}
        """Device that has left → why."""
        self._head_ranges: set[int] = set()
        self._cluster_tickets: set[int] = set()

    def handlers(self) -> Handlers:
        return {
            trace.Clustered: self._clustered,
            trace.Grouped: self._appoint,
            trace.Left: self._left,
            trace.Joined: self._joined,
            trace.Dispatched: self._dispatched,
            trace.Arrived: self._arrived,
            trace.Merged: self._merge,
        }

    def _clustered(self, event: trace.Clustered) -> None:
        self._end(event.t)
        self.clusterings.append(
            Clustering(t=event.t, version=event.version, clusters=event.clusters, purity=event.purity)
        )

    def _left(self, event: trace.Left) -> None:
        self._gone[event.device] = event.reason

    def _joined(self, event: trace.Joined) -> None:
        self._gone.pop(event.device, None)

    def _dispatched(self, event: trace.Dispatched) -> None:
        if event.for_cluster:
            self._cluster_tickets.add(event.ticket)
        elif event.gradient:
            return  # the clusters exist until the next ones are found
        elif self._now and range_of(event.ticket) not in self._head_ranges:
            self._end(event.t)  # a job from the aggregator itself: there are no clusters any more

    def _arrived(self, event: trace.Arrived) -> None:
        if range_of(event.ticket) not in self._head_ranges:
            (self.by_heads if event.ticket in self._cluster_tickets else self.by_devices)[event.device] += 1
            self._cluster_tickets.discard(event.ticket)  # it arrives once

    def _merge(self, event: trace.Merged) -> None:
        self.merged += len(event.tickets)

    def _appoint(self, event: trace.Grouped) -> None:
        self._head_ranges.add(event.ticket_range)
        before = self._now.get(event.cluster)
        if before is not None and before.head == event.head:
            return  # only its members have changed
        if before is None:
            if self.clusterings:
                self.clusterings[-1].heads[event.cluster] = event.head
        else:
            before.until = event.t
            why = self._gone.get(before.head, NO_ANSWER)
            self.replaced.append(
                Replacement(t=event.t, cluster=event.cluster, old=before.head, new=event.head, why=why)
            )
        self._now[event.cluster] = HeadTerm(head=event.head, since=event.t)
        self.head_terms.append(self._now[event.cluster])

    def _end(self, moment: float) -> None:
        for term in self._now.values():
            term.until = moment
        self._now.clear()
