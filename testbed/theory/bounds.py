"""Upper bounds of E[f(ŵ(T))] − f(w*) of SFL, AUDG and PSURDG under measured delays.

Hao, Cui, Yang, Wu, Feng, Hu: The Impact Analysis of Delays in Asynchronous Federated Learning with Data Heterogeneity
for Edge Intelligence. 2025, Theorems 1 to 3.

Symbols
    ŵ(T), w*    mean of the models of T iterations; the best model
    L, μ        smoothness and strong convexity of every device's loss f_i      (9), (10)
    R           ‖w^t − w*‖ ≤ R                                                  (11)
    G           ‖∇f_i(w)‖ ≤ G                                                   (12)
    φ           heterogeneity: ‖w_i* − w*‖ ≤ φ                                  (6)
    η           local learning rate                                             (7)
    λ_i         weight of device i; their sum is 1                              (5)
    τ           Σ λ_i E[τ_i(t)], and likewise τ² and τ³
    |I|, N      E[|I_t|], the mean number of devices heard; all devices
    X           τ³/3 + 3/2·τ² + 13/6·τ

Bounds
    SFL     R²/(2ηT) + 2L/(μT²)·[LR² + (μ + L)φ²]                                               (20)
    AUDG    (20) + LR²/2·τ + (N − |I|)·[(2L − μ)/2·φ² + 3/2·LR²]
                 + η²G²(L − μ)/2·|I|·τ + η²G²LN/2·X                                             (21)
    PDD     the terms of (21) that remain when φ = 0 and T → ∞                                          (45)
    PSURDG  (20) + LR²/2·τ + Nη²G²/2·[(L − μ)·τ + L·X]                                          (48)
    Θ       (48) − (21) = (N − |I|)·[η²G²(L − μ)/2·τ − 3/2·LR² − (2L − μ)/2·φ²]                 section V.B

Departures
    (48) is printed as (L − μ)·[τ + L/(L − μ)·X], which L = μ would divide by zero; here it is multiplied out.
    Θ is defined as the difference of (48) and (21), which has η²G²(L − μ)/2, but is printed with η²G²L/2. That is a
    misprint: Θ here is the difference. :func:`theta_as_printed` returns the other, which is never smaller.
    One sentence after Θ prints (L − μ)/2·φ² instead of (2L − μ)/2·φ²: another misprint.
    (46) reuses the update of a silent device as if it were based on w^{t−τ_i(t)}. By (1) τ_i became 0 when that update
    was used, so the reused update is older than (48) assumes. (48) is computed as it stands.
    Expectations are means over the iterations of one run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from testbed.common.errors import UserError
from testbed.theory.bound_constants import Constants
from testbed.theory.iterations import Iterations


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredBounds:
    """The measured quantities of the bounds."""

    versions: int
    """T"""
    devices: int
    """N"""
    heard: float
    """E[|I_t|]"""
    tau: float
    tau2: float
    tau3: float
    """Σ λ_i E[τ_i(t)^k]"""

    @property
    def absent(self) -> float:
        return self.devices - self.heard  # N − E[|I_t|]

    @property
    def x(self) -> float:
        return self.tau3 / 3 + 3 / 2 * self.tau2 + 13 / 6 * self.tau  # of (21) and (48)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A bound, and its terms, of which it is the sum."""

    value: float
    terms: dict[str, float]


TERMS = {
    "start": "R²/2ηT",
    "heterogeneity": "2L/μT²·[LR² + (μ + L)φ²]",
    "age": "LR²/2·τ",
    "absence": "(N − |I|)·[(2L − μ)/2·φ² + 3/2·LR²]",
    "steps": "η²G²(L − μ)/2·τ, times |I| or N",
    "drift": "η²G²LN/2·[τ³/3 + 3/2·τ² + 13/6·τ]",
}
"""The terms of the bounds, and how they are computed."""


def weights(iterations: Iterations, kind: str) -> dict[str, float]:
    """Return λ_i: each device's share of the samples, or the same for all (``equal``). Raises UserError."""
    shares = {name: 1 if kind == "equal" else delays.samples for name, delays in iterations.devices.items()}
    total = sum(shares.values())
    if total == 0:
        raise UserError("no device has samples, so none has a weight; use --weights equal, or another run")
    return {name: share / total for name, share in shares.items()}


def measured(iterations: Iterations, lam: Mapping[str, float]) -> MeasuredBounds:
    """Return the moments of the delays, weighted by λ."""

    def moment(power: int) -> float:
        return math.fsum(lam[name] * delays.moment(power) for name, delays in iterations.devices.items())

    versions = len(iterations.heard)
    return MeasuredBounds(
        versions=versions,
        devices=len(iterations.devices),
        heard=sum(iterations.heard) / versions,
        tau=moment(1),
        tau2=moment(2),
        tau3=moment(3),
    )


def sfl(c: Constants, m: MeasuredBounds) -> Bound:
    """Theorem 1: no update is ever late."""
    farthest = c.L * c.R * c.R + (c.mu + c.L) * c.phi * c.phi  # the bracket of (20)
    return _bound(
        {
            "start": c.R * c.R / (2 * c.eta * m.versions),  # (20)
            "heterogeneity": 2 * c.L / (c.mu * m.versions**2) * farthest,  # (20)
        }
    )


def audg(c: Constants, m: MeasuredBounds) -> Bound:
    """Theorem 2: every update is used once, however late."""
    return _bound(
        sfl(c, m).terms
        | _age_and_drift(c, m)
        | {
            "absence": m.absent * _absence(c),  # (21)
            "steps": _step(c) * (c.L - c.mu) / 2 * m.heard * m.tau,  # (21)
        }
    )


def psurdg(c: Constants, m: MeasuredBounds) -> Bound:
    """Theorem 3: the last update of every device is used in every iteration."""
    return _bound(
        sfl(c, m).terms
        | _age_and_drift(c, m)
        | {
            "steps": _step(c) * (c.L - c.mu) / 2 * m.devices * m.tau  # (48), multiplied out
        }
    )


def pdd(c: Constants, m: MeasuredBounds) -> float:
    """Return the performance degradation of AUDG that is only due to delays."""
    terms = audg(c, m).terms
    return math.fsum((terms["age"], 3 / 2 * c.L * c.R * c.R * m.absent, terms["drift"], terms["steps"]))  # (45)


def theta(c: Constants, m: MeasuredBounds) -> float:
    """Return Θ = (48) − (21) under the same delays; below 0, PSURDG has the lower bound."""
    return m.absent * (_step(c) * (c.L - c.mu) / 2 * m.tau - _absence(c))  # section V.B, corrected


def theta_as_printed(c: Constants, m: MeasuredBounds) -> float:
    """Return Θ with the misprint; it exceeds the difference by (N − |I|)·η²G²μ/2·τ."""
    return m.absent * (_step(c) * c.L / 2 * m.tau - _absence(c))  # section V.B


def _bound(terms: dict[str, float]) -> Bound:
    return Bound(value=sum(terms.values()), terms=terms)


def _age_and_drift(c: Constants, m: MeasuredBounds) -> dict[str, float]:
    """Return the terms that (21) and (48) have in common beyond (20)."""
    return {
        "age": c.L * c.R * c.R / 2 * m.tau,  # (21), (48)
        "drift": _step(c) * c.L * m.devices / 2 * m.x,  # (21), (48)
    }


def _absence(c: Constants) -> float:
    return (2 * c.L - c.mu) / 2 * c.phi * c.phi + 3 / 2 * c.L * c.R * c.R  # (21)


def _step(c: Constants) -> float:
    return c.eta * c.eta * c.G * c.G  # η²G²
