"""The engine of a cluster head: the engine of the aggregator, over the members of one cluster, without versions.

Models come from the aggregator (``adopt``), and the results of the members go to it (``pass_up``). The aggregator also
decides which devices are members, and replaces a head that is too slow. So the strategy of a head may wait forever: it
asks for a wake at infinity. A head makes no model, so it does not measure any: the aggregator ends the run before it
sends one that is not finite, and rejects a result that is not.

Members may carry jobs of their former heads (ADR 28): their tickets are taken over when the members join.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from aggregator.engine.actions import Send
from aggregator.engine.engine import NO_BOUND, Engine
from aggregator.engine.ticket_register import Record
from aggregator.engine.tickets import PresentDevice, Ticket
from aggregator.strategies.eafl.head_strategy import HeadStrategy
from aggregator.strategy import DeviceInfo, Merged
from testbed.history import trace
from testbed.profile.schema import UpdateBound
from testbed.wire.messages import Vector
from testbed.wire.training_job import Job

NOT_THERE = "its device does not have it any more"


class ClusterEngine(Engine):
    """``up`` is called with each result: the sum of the merged updates, and their tickets.

    ``carried``: device → the ticket of a former head that it works on.
    """

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
        carried: Mapping[str, int] | None = None,
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
        self._carried = dict(carried or {})
        """Those of members that have not joined yet."""
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

    def pass_up(self, delta: Vector, merged: Merged) -> None:
        """End the tickets of a result as applied, and pass the result to ``up``."""
        for number, _, _ in merged:
            self._register.apply(self._awaiting(number, "merged"), self.now)
        self._up(delta, merged)

    # ---- jobs of former heads

    def forget_carried(self, device: str) -> bool:
        """Return whether a device, which is no longer a member, carries a job and has not joined. It is forgotten."""
        return self._carried.pop(device, None) is not None

    def _presence(self, info: DeviceInfo, trains_sent: int) -> PresentDevice:
        present = super()._presence(info, trains_sent)
        number = self._carried.pop(info.name, None)
        if number is not None:
            self._record(trace.Carried(t=self.now, device=info.name, ticket=number))
            present.ticket = self._register.take_over(info, number, self.job)
        return present

    def _resend(self, present: PresentDevice, ticket: Ticket) -> None:
        """Send a Train again. That of a carried ticket is not here: the member gets another job."""
        if not ticket.carried:
            super()._resend(present, ticket)
            return
        self._present.release(present)
        self._register.lose(ticket, NOT_THERE, self.now)
        self._consult(f"a job that {ticket.device} does not have", self.strategy.on_ready, ticket.device)
