"""How verdicts on the claims of AFL's paper follow from the measurements, and how these are printed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from statistics import fmean

from testbed.papers.afl.afl_rounds import FRACTIONS
from testbed.papers.framework.chapter import ClaimVerdict
from testbed.papers.framework.number_text import spread

NOT_RUN = "–"


def by_share(holds: Sequence[bool], best: ClaimVerdict = ClaimVerdict.AGREES) -> ClaimVerdict:
    """By the share of cases in which a claim holds: nine of ten agree, more than half agree in direction."""
    if not holds:
        return ClaimVerdict.MISSING
    share = sum(holds) / len(holds)
    return best if share >= 0.9 else ClaimVerdict.DIRECTION if share > 0.5 else ClaimVerdict.DIFFERS


def by_order(groups: Sequence[Sequence[float]]) -> ClaimVerdict:
    """Each group should be above the next. Agrees: their means are. In direction: the first mean is above the last."""
    if len(groups) < 2 or not all(groups):
        return ClaimVerdict.MISSING
    means = [fmean(group) for group in groups]
    if all(one > next_ for one, next_ in itertools.pairwise(means)):
        return ClaimVerdict.AGREES
    return ClaimVerdict.DIRECTION if means[0] > means[-1] else ClaimVerdict.DIFFERS


def by_limit(value: float | None, agrees: float, direction: float) -> ClaimVerdict:
    """By two lower limits of the value."""
    if value is None:
        return ClaimVerdict.MISSING
    return (
        ClaimVerdict.AGREES
        if value >= agrees
        else ClaimVerdict.DIRECTION
        if value >= direction
        else ClaimVerdict.DIFFERS
    )


def by_fraction(groups: Sequence[Sequence[float]], digits: int = 0) -> str:
    return ", ".join(f"C = {c:g}: {finite_spread(group, digits)}" for c, group in zip(FRACTIONS, groups, strict=True))


def finite_spread(values: Sequence[float], digits: int = 0) -> str:
    """As ``spread`` for the finite values, with the number of infinite ones."""
    finite = [value for value in values if math.isfinite(value)]
    never = f" (never in {len(values) - len(finite)} of {len(values)})" if len(finite) < len(values) else ""
    return spread(finite, digits) + never
