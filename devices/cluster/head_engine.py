"""What a cluster head does with its members: an engine that makes no versions, and its rule.

The model comes from above (``adopt``), and what the members made of it goes up. Who is present is not judged here:
the aggregator says who is a member, and replaces a head that takes too long. So the rule never stalls: it waits for
somebody else, which is a wake that never comes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from aggregator.engine.engine import Engine, Send
from aggregator.engine.ticket_register import Record
from aggregator.strategies.eafl.head_strategy import HeadStrategy
from testbed.wire.messages import Job, Vector

Merged = tuple[tuple[int, float, int], ...]
"""Ticket, weight and staleness of each update."""


class ClusterEngine(Engine):
    """Over the members of one cluster. ``up`` is given what they made of a model."""

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
        )
        self.strategy, self._up = strategy, up
        self._register.jobs.update(jobs)

    def adopt(self, model: Vector, version: int, job: Job, now: float) -> None:
        """The aggregator has a new model, or (of the same version) wants the cluster to work on this one again."""
        self.now, self.job = max(now, self.now), job
        if version != self.version:
            self._register.history.append(model, version)
        self._carry_out(self.strategy.on_model(self), "a model from above")

    def count_on(self, jobs: Mapping[str, int]) -> None:
        """So many jobs were sent to devices, as far as the aggregator knows."""
        known = self._register.jobs
        for device, count in jobs.items():
            known[device] = max(count, known[device])

    def want(self, quorum: int, now: float) -> None:
        """So many updates are wanted from now on."""
        self.now, self.strategy.quorum = max(now, self.now), quorum
        self._carry_out(self.strategy.on_wake(self), "a change of members")

    def pass_up(self, delta: Vector, weights: Mapping[int, float]) -> None:
        """Settle these tickets, and give ``up`` what they add up to: there is no new version here."""
        merged = []
        for number, weight in weights.items():
            ticket = self._awaiting(number, "merged")
            merged.append((number, weight, self.version - ticket.base))
            self._register.apply(ticket, self.now)
        self._up(delta, tuple(merged))
