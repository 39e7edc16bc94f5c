"""How far apart the devices of a round are (Forootani and Iervolino 2025, section VI)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from testbed.wire.messages import Job, Update

Executions = list[tuple[str, float]]
"""Device and execution time, in the order of arrival; a fast device may come twice."""


@dataclass(slots=True)
class DelaySpread:
    """Collects the execution times τ_c of a round, and keeps τ_t = max τ_c − min τ_c of the last one that ended.

    τ_c is what the device took from having the model to having the result, suspensions included: the links are not
    execution.
    """

    seconds: float = 0.0
    """τ_t; 0 before the first round has ended."""
    _round: Executions = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._round)

    def add(self, update: Update) -> None:
        self._round.append((update.device, update.finished - update.started))

    def close(self) -> Executions:
        """The round has ended: gives what was collected."""
        ended, self._round = self._round, []
        times = [seconds for _, seconds in ended]
        self.seconds = max(times, default=0.0) - min(times, default=0.0)
        return ended

    def slowed(self, job: Job, alpha: float) -> Job:
        """Local rate γ0 / (√(e + 1) · (1 + α·τ_t)) in local epoch e; γ0 is the rate that the job has."""
        return replace(job, lr=job.lr / (1 + alpha * self.seconds), lr_schedule="inverse-sqrt")
