"""The measurements of a finished run, read from its run folder."""

from __future__ import annotations

import csv
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.papers.framework.paper_run import PaperRun


@dataclass(frozen=True, kw_only=True)
class Result:
    paper_run: PaperRun
    folder: Path
    took: float
    """Host seconds of the last attempt, from its start to its end."""
    attempts: int

    @functools.cached_property
    def summary(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads((self.folder / "summary.json").read_text(encoding="utf-8"))
        return found

    @property
    def fidelity(self) -> str:
        """PASS, WARN or FAIL."""
        return str(self.summary["fidelity"]["verdict"])

    def rows(self, name: str) -> list[dict[str, str]]:
        """The rows of a table of the run, such as ``rounds.csv``."""
        with (self.folder / name).open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def curve(self, metric: str = "accuracy", over: str = "time_s") -> tuple[list[float], list[float]]:
        """Where each score was reached (seconds, or the column ``over``: version, joules, bytes), and the scores."""
        scored = [row for row in self._scores if row[metric] and row[over]]
        return [float(row[over]) for row in scored], [float(row[metric]) for row in scored]

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

    @functools.cached_property
    def _scores(self) -> list[dict[str, str]]:
        return self.rows("metrics.csv")


Results = Mapping[str, Result]
"""Name of a run → its result. Runs that were omitted or failed are not in it."""
