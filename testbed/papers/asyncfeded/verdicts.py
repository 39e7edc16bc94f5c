"""What AsyncFedED's curves are compared by, and how verdicts follow from that. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median

from testbed.papers.framework.chapter import ClaimVerdict

STABLE, DRASTIC = 0.05, 0.1
"""Accuracy: a loss of at most so much is stable, one of at least so much is drastic."""
NEAR = 1.0
"""A staleness γ is near γ̄ within so much."""

Curve = tuple[Sequence[float], Sequence[float]]
"""Moments and accuracies, as ``Result.curve`` gives them."""


def sampled(curve: Curve, end: float, points: int = 50) -> list[float]:
    """The accuracy that was known at evenly spaced moments up to ``end``: rules score at moments of their own."""
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
    """Accuracy lost on the way, all falls added up: 0 for a curve that only rises."""
    return sum(max(0.0, before - after) for before, after in pairwise(sampled(curve, end)))


def leads(ours: float | None, others: Sequence[float | None]) -> bool:
    """Whether we were there before all others; None: never there."""
    return ours is not None and all(other is None or ours < other for other in others)


def by_cases(won: Sequence[bool], *, same: bool, overall: bool = True) -> ClaimVerdict:
    """Cases are seeds, or values of P. Won in all: agrees; in more than half, and in the mean over all of them
    (``overall``): in direction; else it does not agree.

    On another task than the paper's (a smaller network, fewer devices) the most is: in direction.
    """
    if not won:
        return ClaimVerdict.MISSING
    if all(won):
        return ClaimVerdict.AGREES if same else ClaimVerdict.DIRECTION
    return ClaimVerdict.DIRECTION if overall and 2 * sum(won) > len(won) else ClaimVerdict.DIFFERS


def stability(ours: float | None, others: Sequence[float | None]) -> ClaimVerdict:
    """By the accuracy lost from P = 0 to the largest P. At most ``STABLE``: agrees; less than others: in direction."""
    known = [other for other in others if other is not None]
    if ours is None or len(known) < len(others):
        return ClaimVerdict.MISSING
    if ours <= STABLE:
        return ClaimVerdict.AGREES
    return ClaimVerdict.DIRECTION if all(ours < other for other in known) else ClaimVerdict.DIFFERS


def decline(losses: Sequence[float | None]) -> ClaimVerdict:
    """By the same losses, of both FedAsync. Each at least ``DRASTIC``: agrees; each above ``STABLE``: in direction."""
    known = [loss for loss in losses if loss is not None]
    if len(known) < len(losses):
        return ClaimVerdict.MISSING
    if all(loss >= DRASTIC for loss in known):
        return ClaimVerdict.AGREES
    return ClaimVerdict.DIRECTION if all(loss > STABLE for loss in known) else ClaimVerdict.DIFFERS


def settled(gammas: Sequence[float], target: float) -> ClaimVerdict:
    """Of the stalenesses γ in the second half of the runs. Half of them within ``NEAR`` of γ̄: agrees; the median within
    it: in direction.
    """
    if not gammas:
        return ClaimVerdict.MISSING
    if near(gammas, target) >= 0.5:
        return ClaimVerdict.AGREES
    return ClaimVerdict.DIRECTION if abs(median(gammas) - target) <= NEAR else ClaimVerdict.DIFFERS


def near(gammas: Sequence[float], target: float) -> float:
    """Share of the stalenesses that are near γ̄."""
    return sum(abs(gamma - target) <= NEAR for gamma in gammas) / len(gammas)


def highest(values: Mapping[str, float], name: str) -> bool:
    return all(values[name] > value for other, value in values.items() if other != name)


def lowest(values: Mapping[str, float], name: str) -> bool:
    return all(values[name] < value for other, value in values.items() if other != name)
