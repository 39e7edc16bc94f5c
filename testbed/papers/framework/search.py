"""A setting that a paper does not print, or that does not fit a smaller scale: looked for on seeds of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from testbed.papers.framework.job import PaperRun
from testbed.papers.framework.result import Result, Results


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    name: str
    """For whom: ``AUDG``, ``FedAsync on FEMNIST``."""
    key: str
    """Of the profile."""
    values: tuple[float, ...]
    jobs: Callable[[float], Sequence[PaperRun]]
    """Those of one value."""
    score: Callable[[Sequence[Result]], float]
    """Of one value; the highest wins."""
    measure: str
    """What the score is, in words."""

    def all_jobs(self) -> list[PaperRun]:
        return [job for value in self.values for job in self.jobs(value)]

    def scores(self, results: Results) -> dict[float, float]:
        """Of those values whose jobs are all done."""
        found = {}
        for value in self.values:
            done = [results[job.name] for job in self.jobs(value) if job.name in results]
            if done and len(done) == len(self.jobs(value)):
                found[value] = self.score(done)
        return found

    def chosen(self, results: Results) -> float:
        """Nothing is chosen by half: until every value has been tried, it is the middle one."""
        scores = self.scores(results)
        if len(scores) < len(self.values):
            return self.values[len(self.values) // 2]
        return max(scores, key=lambda value: scores[value])

    def is_at_an_end(self, results: Results) -> bool:
        """Whether the first or the last of the values won."""
        return len(self.scores(results)) == len(self.values) and self.chosen(results) in (
            self.values[0],
            self.values[-1],
        )
