"""ASAFL: how verdicts follow from measurements. At another scale, a number can agree in direction at most."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, geometric_mean

from testbed.papers.asafl.runs import SLACK, Scores, difference
from testbed.papers.framework.chapter import ClaimVerdict

LEAST = 0.01
"""Smaller differences of accuracies do not count."""
FASTER = 1.1
"""Smaller ratios of times do not count."""


def is_above(first: Scores, second: Scores) -> bool:
    """Whether the mean difference over the seeds is at least ``LEAST``, and positive for most of them."""
    found = difference(first, second)
    return fmean(found) >= LEAST and _most(each > 0 for each in found)


def is_faster(ratios: Sequence[float]) -> bool:
    """Whether the geometric mean over the seeds is at least ``FASTER``, and most ratios are above 1."""
    return geometric_mean(ratios) >= FASTER and _most(each > 1 for each in ratios)


def higher(claims: Sequence[tuple[Scores, Scores]], if_true: ClaimVerdict = ClaimVerdict.DIRECTION) -> ClaimVerdict:
    """Verdict ``if_true`` if in each pair the first is above the second."""
    if not claims or any(not first.keys() & second.keys() for first, second in claims):
        return ClaimVerdict.MISSING
    return if_true if all(is_above(*claim) for claim in claims) else ClaimVerdict.DIFFERS


def faster(claims: Sequence[Sequence[float]]) -> ClaimVerdict:
    """In direction if all rivals take longer to the target; each is given by its ratios."""
    if not claims or not all(claims):
        return ClaimVerdict.MISSING
    return ClaimVerdict.DIRECTION if all(map(is_faster, claims)) else ClaimVerdict.DIFFERS


def both(first: ClaimVerdict, second: ClaimVerdict) -> ClaimVerdict:
    """Verdict on a claim of two parts: the worse one."""
    order = (ClaimVerdict.MISSING, ClaimVerdict.DIFFERS, ClaimVerdict.DIRECTION, ClaimVerdict.AGREES)
    return min(first, second, key=order.index)


def rises(parts: Sequence[Sequence[float]]) -> ClaimVerdict:
    """Agrees if, with most seeds, the last part is above the first by a tenth."""
    return _shape([len(each) > 1 and each[-1] > 1.1 * each[0] for each in parts])


def rises_and_falls(parts: Sequence[Sequence[float]]) -> ClaimVerdict:
    """Agrees if, with most seeds, the highest part is neither the first nor the last."""
    return _shape([max(each) > max(each[0], each[-1]) for each in parts])


def keeps(used: Sequence[float]) -> ClaimVerdict:
    """Agrees if no run uses more than ``SLACK`` times its budget."""
    return _shape([each <= SLACK for each in used], every=True)


def _shape(holds: Sequence[bool], *, every: bool = False) -> ClaimVerdict:
    """Verdict on a claim without a number, which can agree fully."""
    if not holds:
        return ClaimVerdict.MISSING
    return ClaimVerdict.AGREES if (all(holds) if every else _most(holds)) else ClaimVerdict.DIFFERS


def _most(holds: Iterable[bool]) -> bool:
    found = list(holds)
    return 2 * sum(found) > len(found)
