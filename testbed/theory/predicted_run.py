"""What the theory needs of a run folder: the iterations of its trace, its last score and its profile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.analysis import trace_reading
from testbed.common.errors import UserError
from testbed.history import trace
from testbed.history.trace import Event
from testbed.loading import profile_files
from testbed.theory.iterations import Iterations, iterations


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedRun:
    """What the theory needs of a run folder."""

    folder: Path
    strategy: str
    seed: int | None
    steps: int
    """Local steps of its longest job."""
    iterations: Iterations
    score: trace.Scored | None
    """The score of the last version that was scored."""
    profile: Mapping[str, Any] | None
    """None if there is no profile.toml; η and the weights can then be given as options."""
    torn: bool
    """Whether the last line of the trace is torn, as a crash leaves it."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Parameters of the strategy."""
        strategy = (self.profile or {}).get("strategy")
        return strategy if isinstance(strategy, Mapping) else {}


@dataclass(slots=True)
class _Noted:
    """What a pass over the trace collects besides the iterations."""

    header: trace.Header | None = None
    steps: int = 0
    score: trace.Scored | None = None

    def watch(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield all events, and note those that are needed."""
        for event in events:
            match event:
                case trace.Header() if self.header is None:
                    self.header = event
                case trace.Dispatched():
                    self.steps = max(self.steps, event.steps)
                # the evaluator may answer out of order
                case trace.Scored() if self.score is None or event.version > self.score.version:
                    self.score = event
                case _:
                    pass
            yield event


def read(place: Path) -> PredictedRun:
    """Read a run in one pass. Raises UserError if its trace cannot be read or has no version."""
    path = trace_reading.file_of(place)
    profile = path.with_name("profile.toml")
    torn: list[int] = []
    noted = _Noted()
    try:
        seen = iterations(noted.watch(trace.read(path, torn.append)))
    except (trace.TraceError, OSError) as error:
        raise UserError(f"{path}: cannot be used: {error}; choose another run") from None
    if not seen.heard:
        raise UserError(f"{path}: has no version, so nothing was aggregated; run for longer")
    return PredictedRun(
        folder=path.parent,
        strategy=noted.header.strategy if noted.header is not None else "unknown",
        seed=noted.header.seed if noted.header is not None else None,
        steps=noted.steps,
        iterations=seen,
        score=noted.score,
        profile=profile_files.read_toml(profile) if profile.is_file() else None,
        torn=bool(torn),
    )
