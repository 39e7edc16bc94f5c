"""The numbers of tickets: each giver of tickets, the aggregator or a cluster head, has a range of its own."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from testbed.common.fields import LARGEST_COUNT

_TICKET_BITS = 24

TicketRange: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=LARGEST_COUNT >> _TICKET_BITS)]

CLUSTER_JOBS = 1 << 30
"""Job numbers from here on belong to models that a cluster head passes on, so that the fault timetable of the head's
own jobs does not apply to them."""


def first_ticket(ticket_range: int) -> int:
    """The first ticket of a range. Tickets of a newer range are larger than all tickets of an older one."""
    return ticket_range << _TICKET_BITS


def range_of(ticket: int) -> int:
    """The range that a ticket belongs to."""
    return ticket >> _TICKET_BITS
