"""What is written about one paper: claims beside measurements, with a verdict on each."""

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
    """One claim."""

    where: str
    """Table or figure of the paper."""
    claim: str
    """The paper's number, or what it says, in our words."""
    ours: str
    verdict: ClaimVerdict
    reason: str = ""
    data: str = ""
    """The data set without which there is nothing to say; empty if its runs need no file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChapterTable:
    """A table of what was measured."""

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
    """What is as in the paper, what is smaller, and why."""
    rows: Sequence[ClaimRow]
    grids: Sequence[ChapterTable] = ()
    pictures: Sequence[PaperFigure] = ()
