"""What the engine keeps about each open ticket and each present device."""

from __future__ import annotations

from dataclasses import dataclass

from aggregator.strategy import DeviceInfo
from testbed.wire.messages import Grant, SendGradient, Train


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts of tickets. Always: dispatched = applied + rejected + lost + superseded + delivered + in flight."""

    dispatched: int = 0
    applied: int = 0
    rejected: int = 0
    lost: int = 0
    superseded: int = 0
    delivered: int = 0

    @property
    def ended(self) -> int:
        """Tickets that are no longer in flight."""
        return self.applied + self.rejected + self.lost + self.superseded + self.delivered


@dataclass(slots=True, kw_only=True)
class Ticket:
    """A dispatch that has not ended yet."""

    number: int
    device: str
    train: Train
    base: int
    """Version that its update is based on: the one that was sent or, if that was lost, the one the device had. If
    ``sends_older``, the newest version that it can be based on."""
    gradient: bool = False
    """Its device was sent no model and no job: it uploads the last update that it has."""
    carried: bool = False
    """A former cluster head gave it out. ``train`` was not sent by this engine, which does not have that model."""
    arrived: bool = False
    """Its update has arrived and awaits a decision of the strategy."""
    asked: bool = False
    """Its job is computed, and its device has asked for a grant."""
    granted: Grant | None = None
    progress: tuple[float, float] | None = None
    """Moment of the last heartbeat that reported progress, and the part of the job that was done by then."""

    @property
    def message(self) -> Train | SendGradient:
        """What its device is sent."""
        if not self.gradient:
            return self.train
        return SendGradient(ticket=self.number, number=self.train.number, sent=self.train.sent)

    @property
    def sends_older(self) -> bool:
        """Whether its update may be based on a version before ``base``, which only the device knows."""
        return self.gradient or self.carried

    @property
    def waits_for_grant(self) -> bool:
        """Whether its device does nothing until the strategy grants a rate."""
        return self.asked and self.granted is None


@dataclass(slots=True, kw_only=True)
class PresentDevice:
    """A device that is connected and alive."""

    info: DeviceInfo
    ticket: Ticket | None = None
    base_version: int | None = None
    """The last version that a device with ``keeps_base`` has trained on. Its model is kept for this device."""
    trains_sent: int = 0
    heartbeats_behind: int = 0
    """Heartbeats since the last Train that report fewer Train messages than were sent."""
    heartbeats_waiting: int = 0
    """Heartbeats in a row that report waiting for a grant that was sent."""
