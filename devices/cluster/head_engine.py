"""The engine of a cluster head: the engine of the aggregator, over the members of one cluster, without versions.

Models come from the aggregator (``adopt``), and the results of the members go to it (``pass_up``). The aggregator also
decides which devices are members, and replaces a head that is too slow. So the strategy of a head may wait forever: it
asks for a wake at infinity. A head makes no model, so it does not measure any: the aggregator ends the run before it
sends one that is not finite, and rejects a result that is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from aggregator.engine.actions import Send
from aggregator.engine.engine import NO_BOUND, Engine
from aggregator.engine.ticket_register import Record
from aggregator.strategies.eafl.head_strategy import HeadStrategy
from testbed.profile.schema import UpdateBound
from testbed.wire.messages import Vector
from testbed.wire.training_job import Job

Merged = tuple[tuple[int, float, int], ...]
"""Ticket, weight and staleness of each update."""


class ClusterEngine(Engine):
    """``up`` is called with each result: the sum of the merged updates, and their tickets."""

    def __init__(
        self,
        strategy: HeadStrategy,
        model: Vector,
        *,
        version: int,
        ticket_range: int,
        jobs: Mapping[str, int],
        job: Job,
        up: Callable[[Vector, Merged], None],
        send: Send,
        record: Record,
        bound: UpdateBound = NO_BOUND,
    ) -> None:
        super().__init__(
            strategy,
            model,
            job=job,
            random=np.random.default_rng(0),
            send=send,
            record=record,
            version=version,
            ticket_range=ticket_range,
            bound=bound,
        )
        self.strategy, self._up = strategy, up
        self._register.jobs.update(jobs)

    def adopt(self, model: Vector, version: int, job: Job, now: float) -> None:
        """Start the cluster on a model of the aggregator: a new one, or the same version once more."""
        self.now, self.job = max(now, self.now), job
        if version != self.version:
            self._register.past_models.append(model, version)
        self._consult("a model from above", self.strategy.on_model)

    def count_jobs(self, jobs: Mapping[str, int]) -> None:
        """Continue the job numbers from the aggregator's counts if those are larger."""
        known = self._register.jobs
        for device, count in jobs.items():
            known[device] = max(count, known[device])

    def set_quorum(self, quorum: int, now: float) -> None:
        """Wait for ``quorum`` updates from now on."""
        self.now, self.strategy.quorum = max(now, self.now), quorum
        self._consult("a change of members", self.strategy.on_wake)

    def pass_up(self, delta: Vector, weights: Mapping[int, float]) -> None:
        """End the tickets of a result as applied, and pass the result to ``up``."""
        merged = []
        for number, weight in weights.items():
            ticket = self._awaiting(number, "merged")
            merged.append((number, weight, self.version - ticket.base))
            self._register.apply(ticket, self.now)
        self._up(delta, tuple(merged))
