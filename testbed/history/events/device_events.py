"""Events that devices report with their messages."""

from __future__ import annotations

from typing import TypeAlias

from testbed.common.fields import Count, Measure, Seconds
from testbed.history.events.event import ComputeEvent, Event, TicketEvent, TransferEvent


class Downloaded(TransferEvent, frozen=True, kw_only=True):
    """One attempt to transfer a model to the device."""


class Suspended(TicketEvent, frozen=True, kw_only=True):
    """A suspension or absence has ended; ``t`` is its end, ``steps`` the steps of the job that were done before it.

    ``away``: it was an absence, by the availability trace or the script. Then ``ticket`` is the job whose computing
    stood still, or 0 if the device was idle or in a transfer; a transfer reports these seconds itself (``absent``).
    """

    steps: Count = 0
    asked: Seconds
    obtained: Seconds
    away: bool = False

    @property
    def since(self) -> float:
        """When the suspension began."""
        return self.t - self.obtained

    @property
    def back(self) -> float:
        """When the suspension should have ended: ``t`` is when the process noticed."""
        return self.since + self.asked


class Scripted(Event, frozen=True, kw_only=True):
    """A scripted event took effect. After a kill the device is silent from ``t`` on, then its process dies."""

    device: str
    do: str
    seconds: Seconds | None = None
    value: Measure | None = None
    how: str | None = None
    """The kind of a poison."""


class Trained(ComputeEvent, frozen=True, kw_only=True):
    """The computing of a job ended. Its seconds exclude suspensions; ``asked`` is 0 if the device is not throttled."""

    asked: Seconds
    obtained: Seconds


class Uploaded(TransferEvent, frozen=True, kw_only=True):
    """One attempt to transfer an update to the aggregator."""

    waited: Seconds | None = None
    """In the first attempt: seconds before ``sent`` in which the update was ready and had no grant."""


class Abandoned(ComputeEvent, frozen=True, kw_only=True):
    """Work was discarded because a newer ticket came; the steps done, and the seconds spent on them."""

    seconds: Seconds


class Poisoned(TicketEvent, frozen=True, kw_only=True):
    """The device falsified the update of a job before its upload, as the script or the recording wants."""

    how: str
    factor: Measure


DeviceEvent: TypeAlias = Downloaded | Suspended | Scripted | Trained | Uploaded | Abandoned | Poisoned
