"""The checks that an update must pass before a strategy sees it."""

from __future__ import annotations

from aggregator.engine.tickets import Ticket
from aggregator.strategy.vectors import is_finite
from testbed.wire.messages import Update


def problem_of(update: Update, ticket: Ticket) -> str | None:
    """Return why this update cannot be used for its ticket, or None if it can."""
    if ticket.train.grant and ticket.granted is None:
        return "it was sent without a grant"
    if update.version != ticket.base:
        return f"it claims version {update.version}, but its ticket is for {ticket.base}"
    if update.delta.shape != ticket.train.model.shape:
        return "its delta has another shape than the model"
    if update.samples < 1:
        return "it was trained on no samples"
    if not is_finite(update.delta):
        return "its delta is not finite"
    return None
