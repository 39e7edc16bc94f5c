"""How the claims of AFL's paper are judged, and how what was measured is told."""

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
    """Of cases in which a claim may hold: in nine of ten it agrees, in more than half in direction."""
    if not holds:
        return ClaimVerdict.MISSING
    share = sum(holds) / len(holds)
    return best if share >= 0.9 else ClaimVerdict.DIRECTION if share > 0.5 else ClaimVerdict.DIFFERS


def by_order(groups: Sequence[Sequence[float]]) -> ClaimVerdict:
    """Each group is to be above the next: by their means it agrees; the first above the last only, in direction."""
    if len(groups) < 2 or not all(groups):
        return ClaimVerdict.MISSING
    means = [fmean(group) for group in groups]
    if all(one > next_ for one, next_ in itertools.pairwise(means)):
        return ClaimVerdict.AGREES
    return ClaimVerdict.DIRECTION if means[0] > means[-1] else ClaimVerdict.DIFFERS


def by_limit(value: float | None, agrees: float, direction: float) -> ClaimVerdict:
    """At least so much agrees, or agrees in direction."""
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
    return ", ".join(f"C = {c:g}: {told(group, digits)}" for c, group in zip(FRACTIONS, groups, strict=True))


def told(values: Sequence[float], digits: int = 0) -> str:
    """As ``spread``, of those that are finite; and how many are not."""
    finite = [value for value in values if math.isfinite(value)]
    never = f" (never in {len(values) - len(finite)} of {len(values)})" if len(finite) < len(values) else ""
    return spread(finite, digits) + never
