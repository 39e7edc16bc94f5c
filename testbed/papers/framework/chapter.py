"""The text about one paper: its claims beside our measurements, with a verdict on each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from matplotlib.figure import Figure


class ClaimVerdict(StrEnum):
    AGREES = "agrees"
    DIRECTION = "agrees in direction"
    DIFFERS = "does not agree"
    UNTESTED = "not tested at this scale"
    MISSING = "not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRow:
    """One claim of a paper and our verdict on it."""

    where: str
    """Table or figure of the paper."""
    claim: str
    """The paper's number or statement, in our words."""
    ours: str
    verdict: ClaimVerdict
    reason: str = ""
    data: str = ""
    """The data set that its runs need; empty if they need no file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChapterTable:
    """A table of measurements."""

    title: str
    header: Sequence[str]
    lines: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperFigure:
    name: str
    caption: str
    draw: Callable[[Figure], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    setting: str
    """What is the same as in the paper, what is smaller, and why."""
    rows: Sequence[ClaimRow]
    tables: Sequence[ChapterTable] = ()
    figures: Sequence[PaperFigure] = ()
