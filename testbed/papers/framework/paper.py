"""One of the papers: what is searched for, what is run, and what is made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from testbed.papers.framework.chapter import Chapter
from testbed.papers.framework.job import PaperRun
from testbed.papers.framework.result import Results
from testbed.papers.framework.search import Search

Chosen = Mapping[str, float]
"""Name of a search → the value that won."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    name: str
    title: str
    citation: str
    searches: Sequence[Search] = ()
    jobs: Callable[[Chosen], Sequence[PaperRun]]
    """Those that are reported, in their order: a recording before who replays it."""
    chapter: Callable[[Results, Chosen], Chapter]
