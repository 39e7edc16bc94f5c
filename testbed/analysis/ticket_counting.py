"""Counting of tickets: each is dispatched once and ends once. An update is counted as applied in its first version."""

from __future__ import annotations

from testbed.analysis.energy import APPLIED, DELIVERED
from testbed.analysis.run_totals import Totals, VersionTotals
from testbed.history import trace
from testbed.history.trace import Event
from testbed.wire.ticket_ranges import range_of


def count_ticket(event: Event, total: Totals) -> None:
    """Add an event about tickets to the totals; others are left out."""
    match event:
        case trace.Dispatched():
            _count_dispatched(event, total)
        case trace.Arrived():
            device = total.devices[event.device]
            total.arrived += 1
            device.to_aggregator += range_of(event.ticket) not in total.head_ranges
            if event.loss is not None and event.ticket not in total.cluster_tickets:
                device.losses.append((event.t, event.loss))
        case trace.Aggregated():
            _count_version(event, total)
        case trace.Grouped():
            total.head_ranges.add(event.ticket_range)
        case trace.Merged():
            _count_merged(event, total)
        case trace.Rejected() | trace.Lost() | trace.Superseded():
            _count_ended(event, total)
        case trace.Delivered():
            total.energy.fates[event.ticket] = DELIVERED
            total.delivered += 1
        case trace.Downloaded() if event.ticket in total.final_tickets and not event.dropped:
            total.final_received[event.device] = event.sent + event.obtained
        case trace.Resent():
            total.resent += 1
        case trace.Ignored():
            total.ignored += 1
            late = total.devices.get(event.device)
            if late is not None and late.trained == event.ticket:  # it ended before the newer model arrived
                late.abandon(event.ticket, late.last_job_s)
        case _:
            pass


def _count_dispatched(event: trace.Dispatched, total: Totals) -> None:
    total.owner[event.ticket] = event.device
    total.dispatched += 1
    if event.for_cluster:
        total.cluster_tickets[event.ticket] = 0.0
    elif event.steps:
        total.devices[event.device].jobs += 1
    else:
        total.devices[event.device].restarted.clear()  # the end of the run cuts that work off, not a newer model
        total.final_sent[event.device] = event.t
        total.final_tickets.add(event.ticket)
        total.energy.fates[event.ticket] = DELIVERED  # it asks for no update


def _count_ended(event: trace.Rejected | trace.Lost | trace.Superseded, total: Totals) -> None:
    fate, device = type(event).__name__.lower(), total.devices[event.device]
    total.energy.fates[event.ticket] = fate
    for counted in (total, device):
        setattr(counted, fate, getattr(counted, fate) + 1)
    if isinstance(event, trace.Superseded):
        device.restarted.add(event.ticket)
    else:
        total.reasons[f"{fate}: {event.reason}"] += 1


def _count_version(event: trace.Aggregated, total: Totals) -> None:
    total.versions, fates = event.version, total.energy.fates
    # a later version may use a ticket again; the ticket ended at its first use
    fresh = [ticket for ticket in event.tickets if ticket not in fates]
    total.applied += len(fresh)
    found = []
    for ticket, staleness in zip(fresh, event.staleness, strict=True):
        fates[ticket] = APPLIED
        device = total.devices[total.owner[ticket]]
        device.applied += 1
        if ticket not in total.cluster_tickets:
            found.append(staleness)
            device.staleness.append(staleness)
    weights = [abs(weight or 0.0) for weight in event.weights]
    for ticket, weight in zip(event.tickets, weights, strict=True):
        if ticket in total.cluster_tickets:
            total.cluster_tickets[ticket] = weight
        else:
            total.devices[total.owner[ticket]].weight += weight
    total.made.append(
        VersionTotals(
            t=event.t,
            version=event.version,
            updates=len(event.tickets),
            staleness=found,
            weight=sum(weights),
            plan=total.plan,
        )
    )


def _count_merged(event: trace.Merged, total: Totals) -> None:
    """Add the updates that a cluster head merged into its update, which is part of the last version."""
    total.applied += len(event.tickets)
    for ticket, weight, staleness in zip(event.tickets, event.weights, event.staleness, strict=True):
        device = total.devices[total.owner[ticket]]
        total.energy.fates[ticket] = APPLIED
        device.applied += 1
        device.staleness.append(staleness)
        device.weight += total.cluster_tickets[event.ticket] * abs(weight or 0.0)
    made = total.made[-1]
    made.updates += len(event.tickets) - 1  # they replace the head's own update
    made.staleness.extend(event.staleness)
