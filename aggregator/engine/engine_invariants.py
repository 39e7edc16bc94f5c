"""The invariants of an engine's accounts. They hold between any two events; ``Engine.validate`` checks them.

Tests call it after every event. It reads everything and changes nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping

from aggregator.engine.head_ledgers import HeadLedger, HeadLedgers
from aggregator.engine.past_models import PastModels
from aggregator.engine.present_devices import PresentDevices
from aggregator.engine.ticket_register import TicketRegister
from aggregator.engine.tickets import PresentDevice, Tally, Ticket
from testbed.wire.ticket_ranges import range_of


class InvariantBroken(AssertionError):
    """The accounts of an engine contradict each other: a programming error, not one of a strategy or a device."""


def check(register: TicketRegister, present: PresentDevices) -> None:
    """Raises InvariantBroken, which names everything that is wrong."""
    problems = [
        *_tally("tickets", register.tally, len(register.open)),
        *_open_tickets(register.open, present),
        *_present_devices(register.open, present),
        *present.problems(),
        *_past_models(register.past_models, _bases(register.open, present)),
        *_tally("tickets of heads", register.head_ledgers.tally, register.head_ledgers.in_flight),
        *_head_ledgers(register.head_ledgers, present),
        *_brought(register.head_ledgers, register.open),
    ]
    if problems:
        raise InvariantBroken("; ".join(problems))


def _tally(what: str, tally: Tally, in_flight: int) -> Iterator[str]:
    if tally.dispatched != tally.ended + in_flight:
        yield f"{what}: {tally.dispatched} were dispatched, but {tally.ended} have ended and {in_flight} are in flight"
    if any(getattr(tally, name) < 0 for name in Tally.__slots__):
        yield f"{what}: a count is negative in {tally}"


def _open_tickets(tickets: Mapping[int, Ticket], present: Mapping[str, PresentDevice]) -> Iterator[str]:
    """Each open ticket belongs to exactly one present device, or its update has arrived and awaits a decision."""
    names = defaultdict[int, list[str]](list)
    for name, device in present.items():
        if device.ticket is not None:
            names[id(device.ticket)].append(name)
    for number, ticket in tickets.items():
        owners = names[id(ticket)]
        if ticket.number != number:
            yield f"ticket {ticket.number} is open under the number {number}"
        if ticket.arrived and owners:
            yield f"ticket {number} awaits a decision, but {' and '.join(owners)} still works on it"
        if not ticket.arrived and not owners:
            yield f"ticket {number} of {ticket.device} is open, but no present device works on it"
        if len(owners) > 1:
            yield f"ticket {number} belongs to several devices: {', '.join(owners)}"


def _present_devices(tickets: Mapping[int, Ticket], present: Mapping[str, PresentDevice]) -> Iterator[str]:
    """The ticket of a present device is open in the register and carries the name of the device."""
    for name, device in present.items():
        ticket = device.ticket
        if device.info.name != name:
            yield f"{device.info.name} is present under the name {name}"
        if ticket is not None and tickets.get(ticket.number) is not ticket:
            yield f"{name} works on ticket {ticket.number}, which is not open"
        if ticket is not None and ticket.device != name:
            yield f"{name} works on ticket {ticket.number}, which carries the name {ticket.device}"


def _bases(tickets: Mapping[int, Ticket], present: Mapping[str, PresentDevice]) -> Counter[int]:
    """Version → how many open tickets are based on it and how many present devices may return to it."""
    kept_for = (device.base_version for device in present.values() if device.base_version is not None)
    return Counter(ticket.base for ticket in tickets.values()) + Counter(kept_for)


def _past_models(kept: PastModels, bases: Counter[int]) -> Iterator[str]:
    for version in sorted({*bases, *kept.holders}):
        holders = kept.holders.get(version, 0)
        if holders != bases[version]:
            yield f"version {version} has {holders} holders, but {bases[version]} tickets and devices need it"
    for version in sorted({*bases, kept.version} - kept.models.keys()):
        yield f"the model of version {version} is needed, but not kept"
    for version in sorted(kept.models.keys() - bases.keys() - {kept.version}):
        yield f"the model of version {version} is kept, but not needed"
    if kept.models.keys() != kept.holders.keys():
        yield f"models are kept of {sorted(kept.models)}, but holders are counted of {sorted(kept.holders)}"
    if kept.models.get(kept.version) is not kept.model:
        yield f"the current model is not the one that is kept as version {kept.version}"


def _head_ledgers(heads: HeadLedgers, present: Collection[str]) -> Iterator[str]:
    """Heads are present, clusters have members, and the tickets of a ledger are of its range and members."""
    numbers = Counter(ledger.number for ledger in heads.ledgers.values())
    for cluster, ledger in heads.ledgers.items():
        name = f"the ledger of cluster {cluster}"
        if ledger.cluster != cluster:
            yield f"{name} is that of cluster {ledger.cluster}"
        if numbers[ledger.number] > 1:
            yield f"{name} has ticket range {ledger.number}, and so has another one"
        if not 0 < ledger.number < len(heads.head_of_range) or heads.head_of_range[ledger.number] != ledger.head:
            yield f"{name} has ticket range {ledger.number}, which was not given to its head {ledger.head}"
        if ledger.head not in present:
            yield f"{name} has the head {ledger.head}, which is not present"
        if not ledger.members:
            yield f"{name} has no members"
        yield from _tickets_of_head(name, ledger)


def _tickets_of_head(name: str, ledger: HeadLedger) -> Iterator[str]:
    for ticket, device in ledger.open.items():
        is_carried = ledger.carried.get(ticket) == device
        if range_of(ticket) != ledger.number and not is_carried:
            yield f"{name} has ticket {ticket}, which is not in its range {ledger.number}"
        if ticket > ledger.last and not is_carried:
            yield f"{name} has ticket {ticket}, but its last ticket is {ledger.last}"
        if device not in ledger.members:
            yield f"{name} has ticket {ticket} of {device}, which is no member"


def _brought(heads: HeadLedgers, tickets: Mapping[int, Ticket]) -> Iterator[str]:
    """What is merged in a result belongs to an open ticket of that head, which awaits a decision."""
    for number, brought in heads.brought.items():
        ticket = tickets.get(number)
        if ticket is None:
            yield f"updates are merged in the result for ticket {number}, which is not open"
        elif not ticket.train.for_cluster or ticket.device != brought.head:
            yield f"updates are merged in the result for ticket {number}, which is no cluster job of {brought.head}"
        elif not ticket.arrived:
            yield f"updates are merged in the result for ticket {number}, which has not arrived"
        for merged in brought.tickets:
            place = range_of(merged)
            if not 0 < place < len(heads.head_of_range) or not heads.head_of_range[place]:
                yield f"ticket {merged} is merged in a result of {brought.head}, but no head gave it out"
            if any(merged in ledger.open for ledger in heads.ledgers.values()):
                yield f"ticket {merged} is merged in a result of {brought.head}, but is still open in its ledger"
