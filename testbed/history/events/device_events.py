"""What devices report, with their messages."""

from __future__ import annotations

from typing import TypeAlias

from testbed.history.events.event import ComputeEvent, Event, TicketEvent, TransferEvent
from testbed.wire.messages import Number


class Downloaded(TransferEvent, frozen=True, kw_only=True):
    """One attempt to bring a model to the device."""


class Suspended(TicketEvent, frozen=True, kw_only=True):
    """The device hung, or was away, and has come back; ``t`` is when it came back, ``steps`` how many it had done.

    Where it was ``away`` by its availability trace, or hung by the script, ``ticket`` is the job whose computing stood
    still. It is 0 where none did: the device was idle, or in a transfer, whose own seconds tell of it (``absent``).
    """

    steps: int = 0
    asked: Number
    obtained: Number
    away: bool = False

    @property
    def since(self) -> float:
        """When it began."""
        return self.t - self.obtained

    @property
    def back(self) -> float:
        """When it should have come back: ``t`` is when its process looked."""
        return self.since + self.asked


class Scripted(Event, frozen=True, kw_only=True):
    """An event of the profile took effect; a kill: the device was silent from ``t`` on, and then its process died."""

    device: str
    do: str
    seconds: Number | None = None
    value: Number | None = None


class Trained(ComputeEvent, frozen=True, kw_only=True):
    """A job's computation ended; suspensions are not counted. ``asked`` is 0 where the device is not throttled."""

    asked: Number
    obtained: Number


class Uploaded(TransferEvent, frozen=True, kw_only=True):
    """One attempt to bring an update to the aggregator."""

    waited: Number | None = None
    """Of the first attempt: seconds before ``sent`` for which it was computed, and not granted a rate."""


class Abandoned(ComputeEvent, frozen=True, kw_only=True):
    """Work thrown away because a newer ticket came, with the steps done and the seconds spent on them."""

    seconds: Number


DeviceEvent: TypeAlias = Downloaded | Suspended | Scripted | Trained | Uploaded | Abandoned
