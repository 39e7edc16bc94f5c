"""Orders: actions that only some strategies need, in addition to the fields of a ``Decision``.

An order is defined next to the strategy that uses it. The engine calls ``after_version`` when the new version is
made, ``before_dispatch`` when rejected updates are settled, and ``after_dispatch`` when the models in
``Decision.train`` are sent. An order acts only through the methods of :class:`EngineActions`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol, TypeAlias

from testbed.history.events.event import Event
from testbed.wire.messages import Vector
from testbed.wire.training_job import Job

Merged: TypeAlias = tuple[tuple[int, float, int], ...]
"""Ticket, weight and staleness of each update in the result of a cluster."""


class EngineActions(Protocol):
    """What an order may do."""

    @property
    def now(self) -> float:
        """Emulated seconds since the run began."""

    @property
    def version(self) -> int:
        """Global updates applied so far."""

    @property
    def true_groups(self) -> Mapping[str, Hashable] | None:
        """Device → the cluster that it should be in, or None where the data does not show it. For the trace only."""

    def record(self, event: Event) -> None:
        """Append an event to the trace."""

    def dispatch(self, device: str, job: Job | None, *, for_cluster: bool = False, gradient: bool = False) -> None:
        """Send the current model with a job, or (the final one) without. ``for_cluster``: to a head as such.

        ``gradient``: send no model, and ask for the last update that the device has.
        """

    def end_round(self, executions: Sequence[tuple[str, float]]) -> None:
        """Record a round: its devices, and the seconds that each computed."""

    def grant(self, device: str, rate: float, share: float) -> None:
        """Let a busy device upload at ``rate`` bits per second, which is ``share`` of the band."""

    def dissolve_clusters(self, *, carry: bool = False) -> None:
        """End all clusters. Open tickets of their heads are superseded; with ``carry``, they go to the next heads."""

    def join_cluster(self, cluster: int, head: str, members: Sequence[str], quorum: int, *, damped: bool) -> None:
        """Send devices their cluster. If its head is another one than before, open tickets of the old head are lost."""

    def pass_up(self, delta: Vector, merged: Merged) -> None:
        """Send the result of a cluster, made of these tickets, to the aggregator. Only a head can do this."""


class Order:
    """Base of all orders."""

    def after_version(self, engine: EngineActions) -> None:
        """Act when the new version is made, before rejected updates are settled."""

    def before_dispatch(self, engine: EngineActions) -> None:
        """Act before models are sent."""

    def after_dispatch(self, engine: EngineActions) -> None:
        """Act after models are sent: the tickets of this decision exist."""
