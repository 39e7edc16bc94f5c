"""One paper: its searches, its runs, and the chapter that follows from their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from testbed.papers.framework.chapter import Chapter
from testbed.papers.framework.paper_run import PaperRun
from testbed.papers.framework.result import Results
from testbed.papers.framework.search import Search

Chosen = Mapping[str, float]
"""Name of a search → the best value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    name: str
    title: str
    citation: str
    searches: Sequence[Search] = ()
    paper_runs: Callable[[Chosen], Sequence[PaperRun]]
    """The reported runs, in order: a recording before the runs that replay it."""
    chapter: Callable[[Results, Chosen], Chapter]
