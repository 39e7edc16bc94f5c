"""What the engine remembers of dispatches that are not settled, and of the devices that are present."""

from __future__ import annotations

from dataclasses import dataclass

from aggregator.strategy import DeviceInfo
from testbed.messages import Train


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


@dataclass(slots=True, kw_only=True)
class Seat:
    """A device that is present."""

    info: DeviceInfo
    ticket: Ticket | None = None
    held: int | None = None
    """Version of the model that a device which keeps its base has had; kept for it."""
    trains_sent: int = 0
    beats_behind: int = 0
    """Heartbeats in a row that know of fewer Trains than were sent."""
