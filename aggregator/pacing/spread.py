"""The spread of execution times in a round (Forootani and Iervolino 2025, section VI)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from testbed.wire.messages import Update
from testbed.wire.training_job import Job

Executions = list[tuple[str, float]]
"""Device and execution time, in the order of arrival; a fast device may appear twice."""


@dataclass(slots=True)
class DelaySpread:
    """Collects the execution times τ_c of a round, and keeps τ_t = max τ_c − min τ_c of the last round that ended.

    τ_c is the time from the received model to the finished result, with suspensions and without transfers.
    """

    seconds: float = 0.0
    """τ_t; 0 before the first round has ended."""
    _round: Executions = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._round)

    def add(self, update: Update) -> None:
        self._round.append((update.device, update.finished - update.started))

    def close(self) -> Executions:
        """End the round. Return what was collected."""
        ended, self._round = self._round, []
        times = [seconds for _, seconds in ended]
        self.seconds = max(times, default=0.0) - min(times, default=0.0)
        return ended

    def slowed(self, job: Job, alpha: float) -> Job:
        """Return the job with learning rate γ0 / (√(e + 1) · (1 + α·τ_t)) in local epoch e; γ0 is its present rate."""
        return replace(job, lr=job.lr / (1 + alpha * self.seconds), lr_schedule="inverse-sqrt")
