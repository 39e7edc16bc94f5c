"""The orders of a strategy with clusters, and of the strategy of a cluster head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aggregator.strategies.eafl.clustering import purity
from aggregator.strategy.orders import EngineActions, Merged, Order
from testbed.history.events.version_events import Clustered
from testbed.wire.messages import Vector
from testbed.wire.training_job import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """A cluster from now on. With a new head it starts over, and its open work is lost."""

    cluster: int
    head: str
    members: tuple[str, ...]
    """The head is one of them."""
    quorum: int
    damped: bool = True


@dataclass(frozen=True, slots=True)
class DissolveClusters(Order):
    """End all clusters. The open tickets of their members are superseded or, with ``carry``, go to the next heads."""

    carry: bool = False

    def before_dispatch(self, engine: EngineActions) -> None:
        engine.dissolve_clusters(carry=self.carry)


@dataclass(frozen=True, slots=True)
class AskForGradients(Order):
    """Let devices upload the last update that they have. The jobs that they work on continue.

    ``jobs``: device → the job that its ticket has. Nobody does it.
    """

    jobs: Mapping[str, Job]

    def before_dispatch(self, engine: EngineActions) -> None:
        for device, job in self.jobs.items():
            engine.dispatch(device, job, gradient=True)


@dataclass(frozen=True, slots=True)
class RecordClusters(Order):
    """Record the clusters that a clustering found, and their purity."""

    clusters: Sequence[Sequence[str]]

    def before_dispatch(self, engine: EngineActions) -> None:
        truth = engine.true_groups
        pure = purity(self.clusters, truth) if truth is not None else None
        found = [list(members) for members in self.clusters]
        engine.record(Clustered(t=engine.now, version=engine.version, clusters=found, purity=pure))


@dataclass(frozen=True, slots=True)
class Regroup(Order):
    """Announce clusters that have changed to their devices, before any model is sent."""

    groups: Sequence[Grouping]

    def before_dispatch(self, engine: EngineActions) -> None:
        for group in self.groups:
            engine.join_cluster(group.cluster, group.head, group.members, group.quorum, damped=group.damped)


@dataclass(frozen=True, slots=True)
class TrainClusters(Order):
    """Send the current model to heads, for their clusters."""

    jobs: Mapping[str, Job]

    def after_dispatch(self, engine: EngineActions) -> None:
        for head, job in self.jobs.items():
            engine.dispatch(head, job, for_cluster=True)


@dataclass(frozen=True, slots=True)
class PassUp(Order):
    """Send the result of a head to the aggregator."""

    delta: Vector
    merged: Merged

    def before_dispatch(self, engine: EngineActions) -> None:
        engine.pass_up(self.delta, self.merged)
