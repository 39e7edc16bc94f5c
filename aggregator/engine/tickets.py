"""What the engine remembers of dispatches that are not settled, and of the devices that are present."""

from __future__ import annotations

from dataclasses import dataclass

from aggregator.strategy import DeviceInfo
from testbed.wire.messages import Grant, Train


@dataclass(slots=True, kw_only=True)
class Tally:
    """dispatched = applied + rejected + lost + superseded + delivered + in flight, always."""

    dispatched: int = 0
    applied: int = 0
    rejected: int = 0
    lost: int = 0
    superseded: int = 0
    delivered: int = 0


@dataclass(slots=True, kw_only=True)
class Ticket:
    """A dispatch that is not settled yet."""

    number: int
    device: str
    train: Train
    base: int
    """Version that its update is based on: the one that was sent, or, if that was lost, the one the device had."""
    delivered: bool = False
    asked: bool = False
    """It is computed, and its device waits for a grant."""
    granted: Grant | None = None
    progress: tuple[float, float] | None = None
    """When the last heartbeat told of its computing, and which part of it was done."""

    @property
    def waits(self) -> bool:
        """Whether nothing comes of it until the rule grants a rate."""
        return self.asked and self.granted is None


@dataclass(slots=True, kw_only=True)
class PresentDevice:
    """A device that is present."""

    info: DeviceInfo
    ticket: Ticket | None = None
    base_version: int | None = None
    """Version of the model that a device which keeps its base has had; kept for it."""
    trains_sent: int = 0
    beats_behind: int = 0
    """Heartbeats in a row that know of fewer Trains than were sent."""
    beats_waiting: int = 0
    """Heartbeats in a row that know nothing of the grant."""

    @property
    def at_work(self) -> bool:
        """Whether something of it can still come without a decision."""
        return self.ticket is not None and not self.ticket.waits
