"""What the theory needs of a run folder: the iterations of its trace, its last score and its profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed.common.errors import UserError
from testbed.history import trace
from testbed.history.event_pass import Handlers, pass_events
from testbed.runs.stored_run import StoredRun
from testbed.theory.iterations import IterationCounter, Iterations


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedRun:
    """What the theory needs of a run folder."""

    folder: Path
    strategy: str
    seed: int
    steps: int
    """Local steps of its longest job."""
    iterations: Iterations
    score: trace.Scored | None
    """The score of the last version that was scored."""
    profile: Mapping[str, object] | None
    """None if there is no profile.toml; η and the weights can then be given as options."""
    torn: bool
    """Whether the last line of the trace is torn, as a crash leaves it."""

    @property
    def settings(self) -> Mapping[str, object]:
        """Parameters of the strategy."""
        strategy = (self.profile or {}).get("strategy")
        return strategy if isinstance(strategy, Mapping) else {}


class _Noted:
    """A checker that notes the header, the local steps of the longest job, and the score of the last scored version."""

    def __init__(self) -> None:
        self.header: trace.Header | None = None
        self.steps = 0
        self.score: trace.Scored | None = None

    def handlers(self) -> Handlers:
        return {trace.Header: self._begun, trace.Dispatched: self._dispatched, trace.Scored: self._scored}

    def _begun(self, event: trace.Header) -> None:
        self.header = event

    def _dispatched(self, event: trace.Dispatched) -> None:
        self.steps = max(self.steps, event.steps)

    def _scored(self, event: trace.Scored) -> None:
        if self.score is None or event.version > self.score.version:  # the evaluator may answer out of order
            self.score = event


def read(place: Path) -> PredictedRun:
    """Read a run in one pass. Raises UserError if its trace cannot be read or has no version."""
    run = StoredRun.open(place)
    noted, counter = _Noted(), IterationCounter()
    try:
        pass_events(run.events(), noted, counter)
        seen = counter.iterations()
    except trace.TraceError as error:
        raise UserError(f"{run.trace}: cannot be used: {error}; choose another run") from None
    if noted.header is None or not seen.heard:
        raise UserError(f"{run.trace}: has no version, so nothing was aggregated; run for longer")
    return PredictedRun(
        folder=run.trace.parent,
        strategy=noted.header.strategy,
        seed=noted.header.seed,
        steps=noted.steps,
        iterations=seen,
        score=noted.score,
        profile=run.profile_table,
        torn=run.torn_line is not None,
    )
