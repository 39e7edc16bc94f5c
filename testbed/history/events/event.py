"""Base classes of events, and the parts that several of them share."""

from __future__ import annotations

import msgspec

from testbed.common.fields import Count, PositiveSeconds, Seconds


class Miss(msgspec.Struct, frozen=True, array_like=True):
    """A missed deadline: the steps before check number ``check`` (from 1) should have taken ``asked`` seconds since the
    previous check, and the last of them ended ``late`` seconds after its deadline.
    """

    check: Count
    asked: PositiveSeconds
    late: Seconds


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """Host seconds that a process ran, waited for a core, and waited in stretches with a missed deadline."""

    cpu: Seconds
    waited: Seconds
    stolen: Seconds


class Event(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag=str.lower):
    t: Seconds


class TicketEvent(Event, frozen=True, kw_only=True):
    """Base of the events of one ticket."""

    device: str
    ticket: Count


class TransferEvent(TicketEvent, frozen=True, kw_only=True, omit_defaults=True):
    """Base of the transfers: one attempt to move a vector over a link, for the device's job number ``job`` (from 0).

    ``sent`` is when the transfer began. ``obtained`` are the seconds until it was due or, if that was later, until the
    device's process took it from the transport. ``t`` is when the device noticed.
    """

    job: Count
    attempt: Count
    sent: Seconds
    asked: Seconds
    obtained: Seconds
    bytes: Count
    dropped: bool
    absent: Seconds | None = None
    """The part of ``asked`` that fell into an absence of the device; omitted if there was none."""


class ComputeEvent(TicketEvent, frozen=True, kw_only=True):
    """Base of the events that end the computing of one job."""

    steps: Count
    checks: Count
    """Deadlines that were checked; those of short steps are checked together."""
    misses: list[Miss]
    use: Use | None = None
    """None if the kernel does not report it."""
