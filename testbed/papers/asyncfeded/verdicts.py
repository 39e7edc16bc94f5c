"""How AsyncFedED's curves are compared, and how verdicts follow from that. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median

from testbed.papers.framework.chapter import ClaimVerdict

STABLE, DRASTIC = 0.05, 0.1
"""Accuracy: a loss of at most ``STABLE`` is stable, one of at least ``DRASTIC`` is drastic."""
NEAR = 1.0
"""Largest distance of a staleness γ that is near γ̄."""

Curve = tuple[Sequence[float], Sequence[float]]
"""Moments and accuracies, as ``Result.curve`` returns them."""


def sampled(curve: Curve, end: float, points: int = 50) -> list[float]:
    """The accuracy at evenly spaced moments up to ``end``: the scores of each strategy are at other moments."""
    moments, values = curve
    found, place = [], 0
    for number in range(points + 1):
        while place + 1 < len(moments) and moments[place + 1] <= end * number / points:
            place += 1
        found.append(values[place])
    return found


def level(curve: Curve, end: float) -> float:
    """Mean accuracy over the seconds of a run: the higher, the sooner it rose."""
    values = sampled(curve, end)
    return sum(values) / len(values)


def falls(curve: Curve, end: float) -> float:
    """Sum of all falls of the accuracy: 0 for a curve that only rises."""
    return sum(max(0.0, before - after) for before, after in pairwise(sampled(curve, end)))


def is_first(ours: float | None, others: Sequence[float | None]) -> bool:
    """Whether ours is before all others; None: never reached."""
    return ours is not None and all(other is None or ours < other for other in others)


def by_cases(won: Sequence[bool], *, same: bool, overall: bool = True) -> ClaimVerdict:
    """Verdict by cases (seeds, or values of P). Agrees: all are won. In direction: more than half, and the mean over
    all of them (``overall``). Otherwise it does not agree.

    On another task than the paper's (a smaller network, fewer devices) it can agree in direction at most.
    """
    if not won:
        return ClaimVerdict.MISSING
    if all(won):
        return ClaimVerdict.AGREES if same else ClaimVerdict.DIRECTION
    return ClaimVerdict.DIRECTION if overall and 2 * sum(won) > len(won) else ClaimVerdict.DIFFERS


def stability(ours: float | None, others: Sequence[float | None]) -> ClaimVerdict:
    """By the accuracy lost from P = 0 to the largest P. Agrees: at most ``STABLE``. In direction: less than others."""
    known = [other for other in others if other is not None]
    if ours is None or len(known) < len(others):
        return ClaimVerdict.MISSING
    if ours <= STABLE:
        return ClaimVerdict.AGREES
    return ClaimVerdict.DIRECTION if all(ours < other for other in known) else ClaimVerdict.DIFFERS


def decline(losses: Sequence[float | None]) -> ClaimVerdict:
    """By the same losses of both FedAsync. Agrees: each at least ``DRASTIC``. In direction: each above ``STABLE``."""
    known = [loss for loss in losses if loss is not None]
    if len(known) < len(losses):
        return ClaimVerdict.MISSING
    if all(loss >= DRASTIC for loss in known):
        return ClaimVerdict.AGREES
    return ClaimVerdict.DIRECTION if all(loss > STABLE for loss in known) else ClaimVerdict.DIFFERS


def settled(gammas: Sequence[float], target: float) -> ClaimVerdict:
    """By the stalenesses γ in the second half of the runs. Agrees: half of them are within ``NEAR`` of γ̄. In
    direction: the median is.
    """
    if not gammas:
        return ClaimVerdict.MISSING
    if near(gammas, target) >= 0.5:
        return ClaimVerdict.AGREES
    return ClaimVerdict.DIRECTION if abs(median(gammas) - target) <= NEAR else ClaimVerdict.DIFFERS


def near(gammas: Sequence[float], target: float) -> float:
    """Share of stalenesses near γ̄."""
    return sum(abs(gamma - target) <= NEAR for gamma in gammas) / len(gammas)


def highest(values: Mapping[str, float], name: str) -> bool:
    return all(values[name] > value for other, value in values.items() if other != name)


def lowest(values: Mapping[str, float], name: str) -> bool:
    return all(values[name] < value for other, value in values.items() if other != name)
