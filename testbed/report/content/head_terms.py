"""Clusters of a run, as plain values: when they were made, who headed them, who was replaced and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from testbed.history import trace
from testbed.history.trace import Event
from testbed.wire.messages import range_of

NO_ANSWER = "no answer in time"


@dataclass(slots=True, kw_only=True)
class Clustering:
    t: float
    version: int
    clusters: list[list[str]]
    purity: float | None
    heads: dict[int, str] = field(default_factory=dict)
    """Cluster → the head that it had first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    t: float
    cluster: int
    old: str
    new: str
    why: str


@dataclass(slots=True, kw_only=True)
class HeadTerm:
    """A device headed a cluster from ``since`` to ``until``; None: to the end."""

    head: str
    since: float
    until: float | None = None


class Clusters:
    """Takes the events of a trace, in order. Empty of runs whose rule has no clusters."""

    def __init__(self) -> None:
        self.clusterings: list[Clustering] = []
        self.replaced: list[Replacement] = []
        self.reigns: list[HeadTerm] = []
        self.by_heads: Counter[str] = Counter()
        """Device → updates at the aggregator that it made, as a head, out of others."""
        self.by_devices: Counter[str] = Counter()
        """Device → updates of its own at the aggregator."""
        self.merged = 0
        """Updates of devices that went into a version through a head."""
        self._now: dict[int, HeadTerm] = {}
        """Cluster → who heads it."""
        self._gone: dict[str, str] = {}
        """Who has left since it was made a head → why."""
        self._books: set[int] = set()
        self._leads: set[int] = set()

    def take(self, event: Event) -> None:
        match event:
            case trace.Clustered():
                self._end(event.t)
                self.clusterings.append(
                    Clustering(t=event.t, version=event.version, clusters=event.clusters, purity=event.purity)
                )
            case trace.Grouped():
                self._books.add(event.ticket_range)
                self._enthrone(event)
            case trace.Left():
                self._gone[event.device] = event.reason
            case trace.Joined():
                self._gone.pop(event.device, None)
            case trace.Dispatched() if event.for_cluster:
                self._leads.add(event.ticket)
            case trace.Dispatched() if range_of(event.ticket) not in self._books:
                self._end(event.t)  # a job by the aggregator itself: there are no clusters any more
            case trace.Arrived() if range_of(event.ticket) not in self._books:
                (self.by_heads if event.ticket in self._leads else self.by_devices)[event.device] += 1
            case trace.Merged():
                self.merged += len(event.tickets)
            case _:
                pass

    def _enthrone(self, event: trace.Grouped) -> None:
        before = self._now.get(event.cluster)
        if before is not None and before.head == event.head:
            return  # its members have changed
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
        self.reigns.append(self._now[event.cluster])

    def _end(self, moment: float) -> None:
        for term in self._now.values():
            term.until = moment
        self._now.clear()
