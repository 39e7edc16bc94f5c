"""A search for a setting that a paper does not print, or that does not fit a smaller scale, on separate seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from testbed.papers.framework.paper_run import PaperRun
from testbed.papers.framework.result import Result, Results


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    name: str
    """What it is for: ``AUDG``, ``FedAsync on FEMNIST``."""
    key: str
    """Key of the profile."""
    values: tuple[float, ...]
    paper_runs: Callable[[float], Sequence[PaperRun]]
    """The runs with one value."""
    score: Callable[[Sequence[Result]], float]
    """The score of one value; the highest wins."""
    measure: str
    """Describes the score."""

    def all_runs(self) -> list[PaperRun]:
        return [paper_run for value in self.values for paper_run in self.paper_runs(value)]

    def scores(self, results: Results) -> dict[float, float]:
        """Value → score, for the values whose runs are all finished."""
        found = {}
        for value in self.values:
            done = [results[paper_run.name] for paper_run in self.paper_runs(value) if paper_run.name in results]
            if done and len(done) == len(self.paper_runs(value)):
                found[value] = self.score(done)
        return found

    def chosen(self, results: Results) -> float:
        """The best value; the middle one until all values have been tried."""
        scores = self.scores(results)
        if len(scores) < len(self.values):
            return self.values[len(self.values) // 2]
        return max(scores, key=lambda value: scores[value])

    def is_at_an_end(self, results: Results) -> bool:
        """Whether the first or the last value is the best."""
        return len(self.scores(results)) == len(self.values) and self.chosen(results) in (
            self.values[0],
            self.values[-1],
        )
