"""What a cluster head does with its members: an engine that makes no versions, and its rule.

The model comes from above (``adopt``), and what the members made of it goes up. Who is present is not judged here:
the aggregator says who is a member, and replaces a head that takes too long. So the rule never stalls: it waits for
somebody else, which is a wake that never comes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from aggregator.engine.engine import Engine, Send
from aggregator.engine.ticket_register import Record
from aggregator.strategies.eafl.two_stage import merge_weights, saa
from aggregator.strategy import Decision, Server, Strategy
from testbed.wire.messages import Job, Update, Vector

Merged = tuple[tuple[int, float, int], ...]
"""Ticket, weight and staleness of each update."""


class HeadStrategy(Strategy):
    """SAA: wait for the fastest ⌈φ·|X_n|⌉ members, and weigh them by samples and staleness.

    Updates that come while the head waits for the next model are first in line for the next result; of more than
    that takes, the others for the one after it. Nobody whose update waits is given another job meanwhile, so all get
    their turn.
    """

    def __init__(self, quorum: int, damped: bool) -> None:
        self.quorum, self._damped = quorum, damped
        self._gathered: list[Update] = []
        self._waits = False
        """For the next model: the last result is on its way."""

    def on_start(self, server: Server) -> Decision:
        return self.on_model(server)

    def on_model(self, server: Server) -> Decision:
        """A new model: for those who took part in the last result, and whoever else has nothing to do.

        Not for those whose updates wait: these are used first.
        """
        self._waits = False
        done = {update.device for update in self._gathered}
        idle = [device for device in server.devices if device not in server.busy and device not in done]
        return self._merge_if_due(server, idle)

    def on_join(self, device: str, server: Server) -> Decision:
        return self._merge_if_due(server, [device])

    def on_leave(self, device: str, server: Server) -> Decision:
        return self._merge_if_due(server, [])

    def on_ready(self, device: str, server: Server) -> Decision:
        return self._merge_if_due(server, [device])

    def on_update(self, update: Update, server: Server) -> Decision:
        self._gathered.append(update)
        return self._merge_if_due(server, [])

    def on_wake(self, server: Server) -> Decision:
        return self._merge_if_due(server, [])

    def _merge_if_due(self, server: Server, idle: Sequence[str]) -> Decision:
        train = {device: self.job(device, server) for device in idle}
        if self._waits or len(self._gathered) < max(1, self.quorum):
            return Decision(train=train, wake_at=math.inf)
        count = max(1, self.quorum)
        taken, self._gathered, self._waits = self._gathered[:count], self._gathered[count:], True
        samples, staleness = [update.samples for update in taken], [server.staleness(update) for update in taken]
        result = saa([update.delta for update in taken], samples, staleness, damped=self._damped)
        weights = merge_weights(samples, staleness, damped=self._damped)
        applied = {update.ticket: weight for update, weight in zip(taken, weights, strict=True)}
        return Decision(up=result, applied=applied, train=train, wake_at=math.inf)


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

    def _carry_out(self, decision: Decision, event: str) -> None:
        if decision.up is not None:
            merged = []
            for number, weight in decision.applied.items():
                ticket = self._awaiting(number, "merged")
                merged.append((number, weight, self.version - ticket.base))
                self._register.apply(ticket, self.now)
            self._up(decision.up, tuple(merged))
            decision = replace(decision, up=None, applied={})
        super()._carry_out(decision, event)
