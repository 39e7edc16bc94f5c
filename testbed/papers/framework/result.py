"""The measurements of a finished run, read from its run folder."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed.papers.framework.paper_run import PaperRun
from testbed.runs.results.summary import Summary
from testbed.runs.stored_run import StoredRun


@dataclass(frozen=True, kw_only=True)
class Result:
    paper_run: PaperRun
    folder: Path
    took: float
    """Host seconds of the last attempt, from its start to its end."""
    attempts: int

    @functools.cached_property
    def run(self) -> StoredRun:
        """Its trace and its results."""
        return StoredRun.open(self.folder)

    @property
    def summary(self) -> Summary:
        return self.run.summary

    @property
    def fidelity(self) -> str:
        """PASS, WARN or FAIL; empty if the run has no certificate."""
        return "" if self.summary.fidelity is None else str(self.summary.fidelity.verdict)

    def curve(self, metric: str = "accuracy", over: str = "time_s") -> tuple[list[float], list[float]]:
        """Where each score was reached (seconds, or the column ``over``: version, joules, bytes), and the scores."""
        scored = [row for row in self.run.metrics.rows if metric in row.scores and getattr(row, over) is not None]
        return [float(getattr(row, over)) for row in scored], [row.scores[metric] for row in scored]

    def final(self, metric: str = "accuracy") -> float:
        return self.curve(metric)[1][-1]

    def best(self, metric: str = "accuracy", *, lower: bool = False) -> float:
        values = self.curve(metric)[1]
        return min(values) if lower else max(values)

    def at(self, place: float, metric: str = "accuracy", over: str = "time_s") -> float:
        """The last score at or before ``place``; the first score if there is none."""
        places, values = self.curve(metric, over)
        return next(
            (value for x, value in zip(reversed(places), reversed(values), strict=True) if x <= place), values[0]
        )

    def reached(
        self, target: float, metric: str = "accuracy", over: str = "time_s", *, lower: bool = False
    ) -> float | None:
        """Where the metric first reached the target; None if it never did."""
        for place, value in zip(*self.curve(metric, over), strict=True):
            if value <= target if lower else value >= target:
                return place
        return None


Results = Mapping[str, Result]
"""Name of a run → its result. Runs that were omitted or failed are not in it."""
