"""The checks that an update must pass before a strategy sees it, and the bound on its norm."""

from __future__ import annotations

import math

import numpy as np
from msgspec.structs import replace

from aggregator.engine.tickets import Ticket
from testbed.profile.schema import UpdateBound
from testbed.wire.messages import Update

NOT_FINITE = "its delta is not finite"
TOO_LARGE = "its norm exceeds aggregator.clip"
_ROUNDING = 1 + 1e-5
"""A delta that was scaled down to the bound, or the mean of several, may be a little longer in single precision."""


def problem_of(update: Update, ticket: Ticket, square: float, bound: UpdateBound) -> str | None:
    """Return why this update cannot be used for its ticket, or None if it can. ``square``: of the norm of its delta."""
    if ticket.train.grant and ticket.granted is None:
        return "it was sent without a grant"
    if update.version > ticket.base or (update.version < ticket.base and not ticket.sends_older):
        return f"it claims version {update.version}, but its ticket is for {ticket.base}"
    if update.delta.shape != ticket.train.model.shape:
        return "its delta has another shape than the model"
    if update.samples < 1:
        return "it was trained on no samples"
    if not math.isfinite(square):
        return NOT_FINITE
    if bound.on_clip == "refuse" and excess(square, bound) is not None:
        return TOO_LARGE
    return None


def excess(square: float, bound: UpdateBound) -> float | None:
    """Return the norm of a delta that exceeds the bound; None if it does not."""
    if bound.clip is None or square <= (bound.clip * _ROUNDING) ** 2:
        return None
    return math.sqrt(square)


def scaled_down(update: Update, norm: float, clip: float) -> Update:
    """Return the update with its delta scaled from ``norm`` down to the norm ``clip``."""
    delta = update.delta * np.float32(clip / norm)
    delta.flags.writeable = False
    return replace(update, delta=delta)
