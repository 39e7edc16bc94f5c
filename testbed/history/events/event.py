"""What all events have, and the parts that several are made of."""

from __future__ import annotations

import msgspec

from testbed.wire.messages import Number, Positive


class Miss(msgspec.Struct, frozen=True, array_like=True):
    """Check number ``check`` (from 1): the steps since the one before should have taken ``asked`` seconds, and the
    last of them was computed so ``late``.
    """

    check: int
    asked: Positive
    late: Number


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """Host seconds that a process ran, waited for a core, and waited in steps that missed their deadline."""

    cpu: Number
    waited: Number
    stolen: Number


class Event(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag=str.lower):
    t: Number


class TicketEvent(Event, frozen=True, kw_only=True):
    """Base of what happens to one ticket of a device."""

    device: str
    ticket: int


class TransferEvent(TicketEvent, frozen=True, kw_only=True, omit_defaults=True):
    """Base of one attempt to move a vector over a link, for the device's job number ``job`` (from 0).

    ``sent`` is when its way began; ``obtained`` counts until it was due, or until the device's process took it from
    the transport if that was later. ``t`` is when the device noticed.
    """

    job: int
    attempt: int
    sent: Number
    asked: Number
    obtained: Number
    bytes: int
    dropped: bool
    absent: Number | None = None
    """Of the seconds asked for, those for which the device was away. Left out where it was there all the time."""


class ComputeEvent(TicketEvent, frozen=True, kw_only=True):
    """Base of what is known about the computing of one job when it ends, one way or the other."""

    steps: int
    checks: int
    """Deadlines that were checked; those of short steps are checked together."""
    misses: list[Miss]
    use: Use | None = None
    """None where the kernel does not say."""
