"""The end of a run: peers are stopped, and the final model is scored."""

from __future__ import annotations

from collections.abc import Iterable

from aggregator.connections.peers import Peers
from aggregator.course.ending import Ending
from aggregator.course.evaluation import EvaluationQueue
from aggregator.engine.engine import Engine
from aggregator.process.intake import Intake
from testbed.host.kernel import is_computing
from testbed.wire.messages import EVALUATOR, Stop

_RECEIVE_SECONDS = 0.1
_FAREWELL_SECONDS = 3.0
_LAST_SCORE_SECONDS = 30.0
_NEW_EVALUATOR_SECONDS = 5.0
"""An evaluator that died is forked again within a second or two, unless it keeps dying."""


class Farewell:
    """Stops the peers of a run. All waits are in host seconds."""

    def __init__(
        self, peers: Peers, engine: Engine, intake: Intake, evaluation: EvaluationQueue, ending: Ending
    ) -> None:
        self._peers, self._engine, self._intake = peers, engine, intake
        self._evaluation, self._ending = evaluation, ending

    def stop(self, names: Iterable[str], reason: str) -> None:
        """Send Stop to peers, and wait up to three seconds for the last heartbeat of each, which contains events.

        The evaluator needs this wait too: a DEALER that queues only for an existing connection (ZMQ_IMMEDIATE) loses
        what it has not read when the connection ends.
        """
        awaited = [name for name in names if self._peers.send(name, Stop(reason=reason))]
        patience = self._moment_after(_FAREWELL_SECONDS)
        while awaited and self._intake.clock.now() < patience:
            if self._peers.has_left(awaited[-1]):
                awaited.pop()
            else:
                self._intake.receive(_RECEIVE_SECONDS)

    def score_last(self) -> None:
        """Have the final model scored, even if the schedule would not."""
        engine, evaluation, clock = self._engine, self._evaluation, self._intake.clock
        patience = self._moment_after(_LAST_SCORE_SECONDS)
        while evaluation.scored != engine.version and clock.now() < patience and self._has_evaluator():
            if not evaluation.pending:
                snapshot = evaluation.last(engine.version, engine.made, engine.model, clock.now())
                if snapshot is not None:
                    self._peers.send(EVALUATOR, snapshot)
            self._intake.receive(_RECEIVE_SECONDS)

    def _has_evaluator(self) -> bool:
        """Whether an evaluator is alive. If it has died, wait for the next one."""
        clock = self._intake.clock
        patience = self._moment_after(_NEW_EVALUATOR_SECONDS)
        while not is_computing(self._peers.hellos[EVALUATOR].pid):
            if self._ending.interrupted or clock.now() > patience:
                return False
            self._intake.receive(_RECEIVE_SECONDS)
        return True

    def _moment_after(self, host_seconds: float) -> float:
        clock = self._intake.clock
        return clock.now() + host_seconds / clock.dilation
