"""Orders: what only some strategies want of the engine, beside the fields of a ``Decision``.

An order is defined beside the strategy that gives it. The engine calls ``before_dispatch`` when the new version is made
and rejected updates are settled, and ``after_dispatch`` when the models in ``Decision.train`` are sent. An order acts by
the methods of :class:`EngineActions` and by nothing else.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol

from testbed.history.events.event import Event
from testbed.wire.messages import Job, Vector


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
        """Device → the cluster it should be in, where the data tells; for the trace only."""

    def record(self, event: Event) -> None:
        """Append an event to the trace."""

    def dispatch(self, device: str, job: Job | None, *, for_cluster: bool = False) -> None:
        """Send the current model, with a job or (the final one) without; ``for_cluster``: to a head, for its members."""

    def end_round(self, executions: Sequence[tuple[str, float]]) -> None:
        """Record a round: its devices, and the seconds that each computed."""

    def grant(self, device: str, rate: float, share: float) -> None:
        """Let a busy device upload at ``rate`` bits per second, which is ``share`` of the band."""

    def dissolve_clusters(self) -> None:
        """End all clusters: what their members do is superseded."""

    def join_cluster(self, cluster: int, head: str, members: Sequence[str], quorum: int, *, damped: bool) -> None:
        """Tell devices that they belong to this cluster. With another head it starts over: open work is lost."""

    def pass_up(self, delta: Vector, weights: Mapping[int, float]) -> None:
        """Of a cluster head: send the aggregator what these tickets add up to."""


class Order:
    """Base of all orders."""

    def before_dispatch(self, engine: EngineActions) -> None:
        """Act before models are sent."""

    def after_dispatch(self, engine: EngineActions) -> None:
        """Act when models have been sent: tickets made by this decision exist."""
