"""How verdicts on the claims of AUDG's paper follow from the measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from testbed.papers.audg.audg_grid import decided
from testbed.papers.framework.chapter import ClaimVerdict

_CLOSE = 0.03
"""Accuracy: three points."""


def of_signs(paper: Sequence[float], ours: Sequence[Sequence[float]]) -> ClaimVerdict:
    """Verdict on the signs of differences by delay, each with one value for each seed.

    A delay is decided where all seeds have one sign. In direction: the mean has the paper's sign at four delays of
    five (two of three), and no delay is decided against it. Not tested: no delay is decided. Sizes depend on network,
    data and η, which are not the paper's: so at most the direction can agree.
    """
    if not all(ours):
        return ClaimVerdict.MISSING
    agreeing = sum(fmean(values) * printed > 0 for printed, values in zip(paper, ours, strict=True))
    signs = [decided(values) * printed for printed, values in zip(paper, ours, strict=True)]
    if not any(signs):
        return ClaimVerdict.UNTESTED
    against = any(sign < 0 for sign in signs)
    return ClaimVerdict.DIRECTION if agreeing >= len(paper) - 1 and not against else ClaimVerdict.DIFFERS


def of_fall(ours: Sequence[Sequence[float]]) -> ClaimVerdict:
    """Verdict on a quantity that is said to fall with the delay.

    Agrees: the mean at each delay is below the one before. In direction: the mean over the last two delays is below
    that over the first two.
    """
    if not all(ours):
        return ClaimVerdict.MISSING
    means = [fmean(values) for values in ours]
    if all(later < earlier for earlier, later in pairwise(means)):
        return ClaimVerdict.AGREES
    return ClaimVerdict.DIRECTION if fmean(means[-2:]) < fmean(means[:2]) else ClaimVerdict.DIFFERS


def of_dip(ours: Sequence[Sequence[float]]) -> ClaimVerdict:
    """Verdict on a quantity that is said to fall until the middle delay, and to rise after it.

    In direction: the middle is below both ends. Agrees: in addition, no delay is below the middle.
    """
    if not all(ours):
        return ClaimVerdict.MISSING
    means = [fmean(values) for values in ours]
    middle = means[len(means) // 2]
    if middle >= means[0] or middle >= means[-1]:
        return ClaimVerdict.DIFFERS
    return ClaimVerdict.AGREES if middle == min(means) else ClaimVerdict.DIRECTION


def of_order(rising: Sequence[Sequence[float]]) -> ClaimVerdict:
    """Verdict on a quantity that is said to rise from one group of values to the next.

    Agrees: the means rise. In direction: the last mean is above the first.
    """
    if not all(rising):
        return ClaimVerdict.MISSING
    means = [fmean(values) for values in rising]
    if all(later > earlier for earlier, later in pairwise(means)):
        return ClaimVerdict.AGREES
    return ClaimVerdict.DIRECTION if means[-1] > means[0] else ClaimVerdict.DIFFERS


def of_synchrony(paper: Sequence[float], ours: Sequence[Sequence[float]]) -> ClaimVerdict:
    """In direction: the first mean is above the second. Agrees: in addition, both are within three points of the
    paper's."""
    if not all(ours):
        return ClaimVerdict.MISSING
    means = [fmean(values) for values in ours]
    if means[0] <= means[1]:
        return ClaimVerdict.DIFFERS
    close = all(abs(mean - printed) <= _CLOSE for mean, printed in zip(means, paper, strict=True))
    return ClaimVerdict.AGREES if close else ClaimVerdict.DIRECTION


def of_predictions(predicted: Mapping[object, int], signs: Mapping[object, int]) -> ClaimVerdict:
    """Verdict on predicted signs by cell; 0 where a prediction is open, or a measurement undecided: these do not count.

    Agrees: all are right. In direction: two of three. Not tested: fewer than five count.
    """
    if not predicted or not signs:
        return ClaimVerdict.MISSING
    right, counted = hits(predicted, signs)
    if counted < 5:
        return ClaimVerdict.UNTESTED
    if right == counted:
        return ClaimVerdict.AGREES
    return ClaimVerdict.DIRECTION if 3 * right >= 2 * counted else ClaimVerdict.DIFFERS


def hits(predicted: Mapping[object, int], signs: Mapping[object, int]) -> tuple[int, int]:
    """How many predictions are right, and how many count."""
    counted = [key for key, sign in predicted.items() if sign and signs.get(key)]
    return sum(predicted[key] == signs[key] for key in counted), len(counted)
