"""EAFL: how verdicts on claims follow from measurements."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from testbed.papers.eafl.runs import Scores
from testbed.papers.framework.chapter import ClaimVerdict

_LEAST = 0.01
"""Smaller differences do not count."""


def is_above(first: Scores, second: Scores) -> bool:
    """Whether the mean difference over the common seeds is at least ``_LEAST``, and positive for most of them."""
    differences = [first[seed] - second[seed] for seed in first.keys() & second.keys()]
    most = sum(difference > 0 for difference in differences) * 2 > len(differences)
    return most and fmean(differences) >= _LEAST


def all_hold(claims: Sequence[tuple[Scores, Scores]]) -> ClaimVerdict:
    """In direction if in each pair the first is above the second. At another scale, only the order can agree."""
    if not claims or any(not first.keys() & second.keys() for first, second in claims):
        return ClaimVerdict.MISSING
    return ClaimVerdict.DIRECTION if all(is_above(*claim) for claim in claims) else ClaimVerdict.DIFFERS


def difference(first: Scores, second: Scores) -> Scores:
    return {seed: first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())}
