"""Θ of AUDG's paper under measured delays, with constants that the paper does not print.

Θ = (N − |I|)·[η²G²(L − μ)/2·τ − 3/2·LR² − (2L − μ)/2·φ²] is negative where PSURDG has the lower bound. Besides τ, its
sign depends on:

    ηL      1: the step of the fastest descent, which a search for the best η after 50 iterations finds
    G       L·(R + φ): ∇f_i is 0 at w_i*, and no w is farther than R + φ from there
    μ/L     close to 0: a neural network is not strongly convex
    φ/R     0 where all devices have the same data. Otherwise it is unknown, and not needed: with τ below 1.2, Θ is
            negative for every φ, with τ above 3 it is positive for every φ. Between them it is open. Θ at φ = 0 and at
            φ = 3/2·R shows which, since (R + φ)²/(3R² + 2φ²) is largest at the latter
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from testbed.papers.audg.audg_grid import GridCell
from testbed.papers.framework.result import Result, Results
from testbed.theory import bounds, predicted_run
from testbed.theory.bound_constants import Constants
from testbed.theory.bounds import MeasuredBounds

_FLAT = 1e-9
"""μ, where L = 1."""
_SKEWS = (0.0, 1.5)
"""φ, where R = 1."""


def delays(run: Result) -> MeasuredBounds:
    iterations = predicted_run.read(run.folder).iterations
    return bounds.measured(iterations, bounds.weights(iterations, "samples"))


def same_devices(one: Result, other: Result) -> bool:
    """Whether the same devices contributed in each iteration of two runs."""
    first, second = (predicted_run.read(run.folder).iterations for run in (one, other))
    return all(first.devices[name].tau == each.tau for name, each in second.devices.items())


def theta(measured: MeasuredBounds, phi: float) -> float:
    """In units of L·R²."""
    return bounds.theta(Constants(L=1, mu=_FLAT, R=1, G=1 + phi, phi=phi, eta=1), measured)


def skews(cell: GridCell) -> Sequence[float]:
    return _SKEWS[:1] if cell.setting == "iid" else _SKEWS


def predicted(cell: GridCell, results: Results) -> int:
    """Sign of PSURDG − AUDG in accuracy: 1, −1, or 0 where it is open."""
    values = [theta(delays(run), phi) for run in cell.runs(results, "audg") for phi in skews(cell)]
    if values and all(value < 0 for value in values):
        return 1
    return -1 if values and all(value > 0 for value in values) else 0


def break_even(measured: MeasuredBounds, phi: float) -> float:
    """The ηL above which Θ is positive: AUDG has the lower bound."""
    return math.sqrt((3 + 2 * phi * phi) / measured.tau) / (1 + phi)
