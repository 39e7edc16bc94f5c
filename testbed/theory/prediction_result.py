"""The result of a prediction: bounds of one run or two, the predicted strategy and the measured one.

The order of the fields is that of ``theory --format json``.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from testbed.theory.bound_constants import Constants
from testbed.theory.bounds import Bound

VersionScore: TypeAlias = dict[str, float]
"""``version``, and the metrics of that version."""


class DeviceDelays(msgspec.Struct, frozen=True, kw_only=True):
    """The delays of one device in a run."""

    device: str
    samples: int
    weight: float
    """λ_i"""
    heard: int
    tau: tuple[float, float, float]
    """E[τ_i(t)^k] for k = 1, 2, 3"""
    max_tau: int


class RunBounds(msgspec.Struct, frozen=True, kw_only=True):
    """What one run measured, and its bounds."""

    folder: str
    strategy: str
    seed: int | None
    constants: Constants
    weights: str
    versions: int
    devices: int
    mean_heard: float
    tau: tuple[float, float, float]
    """Σ λ_i E[τ_i(t)^k] for k = 1, 2, 3"""
    delays: list[DeviceDelays]
    bounds: dict[str, Bound]
    """``sfl``, ``audg`` and ``psurdg`` → the bound under the delays of this run."""
    pdd: float
    theta: float
    theta_as_printed: float
    score: VersionScore | None
    """The score of the last version that was scored."""


class PredictedByTheta(msgspec.Struct, frozen=True, kw_only=True):
    """The strategy with the lower bound under the delays of one run; ``winner`` is None if the bounds are the same."""

    winner: str | None
    theta: float
    audg: float
    psurdg: float


class PredictedByDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The strategy with the lower bound, each under its own delays; ``winner`` is None if the bounds are the same."""

    winner: str | None
    difference: float
    """The bound of PSURDG minus that of AUDG."""
    audg: float
    psurdg: float


class MeasuredWinner(msgspec.Struct, frozen=True, kw_only=True):
    """The strategy with the lower final loss; ``winner`` is None if they are the same or one is missing."""

    winner: str | None
    audg: VersionScore | None
    psurdg: VersionScore | None


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    runs: list[RunBounds]
    predicted: PredictedByTheta | PredictedByDifference
    measured: MeasuredWinner | None
    """None for one run."""
    agree: bool | None
    """None if prediction or measurement has no winner."""
    notes: list[str]
