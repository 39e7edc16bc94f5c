"""What a verification found: that a run can be recomputed, or the first departure."""

from __future__ import annotations

from typing import Literal

import msgspec


class Departure(msgspec.Struct, frozen=True, kw_only=True):
    """The first place at which a recomputed run differs from the recorded one."""

    line: int | None = None
    """Line of the trace; None if another file differs."""
    event: str = ""
    """Kind of the recorded event, or the name of the file."""
    device: str | None = None
    ticket: int | None = None
    expected: str
    """What the recomputation has."""
    found: str
    """What was recorded."""

    def __str__(self) -> str:
        place = self.event if self.line is None else f"line {self.line}, {self.event}"
        ticket = "" if self.ticket is None else f" of ticket {self.ticket}"
        device = "" if not self.device else f" ({self.device})"
        return f"{place}{ticket}{device}: expected {self.expected}, found {self.found}"


class DepartureFound(Exception):
    """Ends a verification at its first departure."""

    def __init__(self, departure: Departure) -> None:
        super().__init__(str(departure))
        self.departure = departure


Verdict = Literal["verified", "close", "departs"]


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one run."""

    run: str
    verdict: Verdict
    """``close``: made on another processor or with other packages, and equal except for rounding."""
    strategy: str
    events: int
    """Lines of the trace up to its end, or to the departure."""
    updates: int
    """Jobs whose local training was computed again."""
    versions: int
    model: str
    """SHA-256 of the recomputed final model."""
    departure: Departure | None = None
    largest_difference: float | None = None
    """Between the numbers of the recomputed and the recorded final model; 0 if the run is verified."""
    notes: list[str] = []
    """What differs between that host and this one, and what could not be compared."""
