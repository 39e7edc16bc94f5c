"""ASAFL: what measured figures say about claims. At another scale, a number can agree in direction at most."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, geometric_mean

from testbed.papers.asafl.runs import SLACK, Scores, difference
from testbed.papers.framework.chapter import ClaimVerdict

LEAST = 0.01
"""A smaller difference of accuracies is none."""
FASTER = 1.1
"""A smaller ratio of times is none."""


def is_above(first: Scores, second: Scores) -> bool:
    """By ``LEAST`` in the mean over the seeds, and with most of them."""
    found = difference(first, second)
    return fmean(found) >= LEAST and _most(each > 0 for each in found)


def is_faster(ratios: Sequence[float]) -> bool:
    """By ``FASTER`` in the (geometric) mean over the seeds, and with most of them."""
    return geometric_mean(ratios) >= FASTER and _most(each > 1 for each in ratios)


def higher(claims: Sequence[tuple[Scores, Scores]], held: ClaimVerdict = ClaimVerdict.DIRECTION) -> ClaimVerdict:
    """Whether in each pair the first is above the second."""
    if not claims or any(not first.keys() & second.keys() for first, second in claims):
        return ClaimVerdict.MISSING
    return held if all(is_above(*claim) for claim in claims) else ClaimVerdict.DIFFERS


def faster(claims: Sequence[Sequence[float]]) -> ClaimVerdict:
    """Whether all rivals take longer to the target; each is given by its ratios."""
    if not claims or not all(claims):
        return ClaimVerdict.MISSING
    return ClaimVerdict.DIRECTION if all(map(is_faster, claims)) else ClaimVerdict.DIFFERS


def both(first: ClaimVerdict, second: ClaimVerdict) -> ClaimVerdict:
    """Of a claim of two parts: what is missing, or differs, does so for the whole."""
    order = (ClaimVerdict.MISSING, ClaimVerdict.DIFFERS, ClaimVerdict.DIRECTION, ClaimVerdict.AGREES)
    return min(first, second, key=order.index)


def rises(parts: Sequence[Sequence[float]]) -> ClaimVerdict:
    """Whether, with most seeds, the last part is above the first by a tenth."""
    return _shape([len(each) > 1 and each[-1] > 1.1 * each[0] for each in parts])


def rises_and_falls(parts: Sequence[Sequence[float]]) -> ClaimVerdict:
    """Whether, with most seeds, the highest part is neither the first nor the last."""
    return _shape([max(each) > max(each[0], each[-1]) for each in parts])


def keeps(used: Sequence[float]) -> ClaimVerdict:
    """Whether no run takes more than the time that it was given, and ``SLACK``."""
    return _shape([each <= SLACK for each in used], every=True)


def _shape(held: Sequence[bool], *, every: bool = False) -> ClaimVerdict:
    """Of a claim without a number, which may agree as it is."""
    if not held:
        return ClaimVerdict.MISSING
    return ClaimVerdict.AGREES if (all(held) if every else _most(held)) else ClaimVerdict.DIFFERS


def _most(held: Iterable[bool]) -> bool:
    found = list(held)
    return 2 * sum(found) > len(found)
