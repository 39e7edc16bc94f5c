"""What the aggregator does during a run besides answering messages: it has versions scored, checks the model's range,
broadcasts the final model and records the end. No I/O, no clock: the process of the aggregator and the twin of a run
(``testbed.twin``) call it at their moments (ADR 33).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable

from aggregator.course.ending import Ending
from aggregator.course.evaluation import EvaluationQueue
from aggregator.engine.engine import Engine
from aggregator.engine.failures import first_bad_number
from testbed.common.errors import UserError
from testbed.history import trace
from testbed.profile.schema import Experiment
from testbed.wire.messages import Snapshot


class RunCourse:
    """The course of one run."""

    def __init__(
        self,
        experiment: Experiment,
        engine: Engine,
        evaluation: EvaluationQueue,
        ending: Ending,
        record: Callable[[trace.Event], None],
    ) -> None:
        """Raises UserError if no device could train on the first model."""
        self._experiment, self._engine = experiment, engine
        self._evaluation, self._ending, self._record = evaluation, ending, record
        if not engine.model_range.is_finite:
            bad = first_bad_number(engine.model)
            raise UserError(f"task {experiment.task_name}: its first model is not finite: {bad}; correct its network")

    def next_snapshot(self, now: float) -> Snapshot | None:
        """Return a version to be scored now; None if it is too early, or if the last one has no score yet."""
        engine = self._engine
        return self._evaluation.next(engine.version, engine.made, engine.model, now)

    def last_snapshot(self, now: float) -> Snapshot | None:
        """Return the final version to be scored, even if the schedule would not; None if it was sent already."""
        engine = self._engine
        return self._evaluation.last(engine.version, engine.made, engine.model, now)

    def check_range(self, now: float) -> trace.OutOfRange | None:
        """Record and return that the model has left its range, when that is noticed first."""
        found = self._engine.model_range.check(self._engine.version, now)
        if found is not None:
            self._record(found)
        return found

    def begin_broadcast(self, now: float) -> float:
        """Send the final model to every device. Return when the run ends although some do not have it."""
        self._ending.broadcasting = True
        self._engine.broadcast_final(now)
        longest = self._experiment.stop.delivery
        return math.inf if longest is None else self._engine.now + longest

    def record_end(self, ended: float, without_farewell: Iterable[str]) -> None:
        """Record the end of the run. ``without_farewell``: devices that did not answer Stop."""
        engine = self._engine
        self._record(
            trace.Stopped(
                t=ended,
                reason=self._ending.reason or "",
                version=engine.version,
                in_flight=engine.in_flight + engine.head_ledgers.in_flight,
                wakes=engine.wakes,
                model=hashlib.sha256(engine.model.tobytes()).hexdigest(),
                silent=[name for name in without_farewell if engine.is_present(name)],
            )
        )
