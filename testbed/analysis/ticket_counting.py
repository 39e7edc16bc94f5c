"""Counting of tickets: each is dispatched once and ends once. An update is counted as applied in its first version."""

from __future__ import annotations

import math

from testbed.analysis.device_totals import DeviceTotals
from testbed.analysis.energy import APPLIED, DELIVERED
from testbed.analysis.run_totals import Totals
from testbed.analysis.version_table import VersionTotals
from testbed.history import trace
from testbed.history.event_pass import Handlers
from testbed.history.numbered_column import NumberedColumn
from testbed.wire.ticket_ranges import range_of


class TicketCounter:
    """A checker that adds the events about tickets to the totals."""

    def __init__(self, total: Totals) -> None:
        self._total = total
        self._numbers: dict[str, int] = {}
        self._devices: list[DeviceTotals] = []
        """Device → its number; number → its totals."""
        self._owner = NumberedColumn("l", -1)
        """Ticket → the number of its device."""
        self._has_clusters = False
        self._cluster_weight = NumberedColumn("d", math.nan)
        """Ticket of a cluster head → its weight in a version, which the updates in it share. NaN: of no head."""

    def _owner_of(self, ticket: int) -> DeviceTotals:
        number = int(self._owner[ticket])
        if number < 0:
            raise KeyError(ticket)
        return self._devices[number]

    def _is_for_cluster(self, ticket: int) -> bool:
        return self._has_clusters and not math.isnan(self._cluster_weight[ticket])

    def _weight_of_cluster(self, ticket: int) -> float:
        if not self._is_for_cluster(ticket):
            raise KeyError(ticket)
        return self._cluster_weight[ticket]

    def handlers(self) -> Handlers:
        return {
            trace.Dispatched: self._dispatched,
            trace.Downloaded: self._downloaded,
            trace.Arrived: self._arrived,
            trace.Aggregated: self._aggregated,
            trace.Grouped: self._grouped,
            trace.Merged: self._merged,
            trace.Rejected: self._ended,
            trace.Lost: self._ended,
            trace.Superseded: self._ended,
            trace.Delivered: self._delivered,
            trace.Resent: self._resent,
            trace.Ignored: self._ignored,
        }

    def _dispatched(self, event: trace.Dispatched) -> None:
        total = self._total
        number = self._numbers.get(event.device)
        if number is None:
            number = self._numbers[event.device] = len(self._devices)
            self._devices.append(total.devices[event.device])
        self._owner[event.ticket] = number
        total.dispatched += 1
        if event.for_cluster or event.gradient:  # no job of the device itself
            self._has_clusters = True
            self._cluster_weight[event.ticket] = 0.0
        elif event.steps:
            total.devices[event.device].jobs += 1
        else:
            total.devices[event.device].restarted.clear()  # the end of the run cuts that work off, not a newer model
            total.final_sent[event.device] = event.t
            total.final_tickets.add(event.ticket)
            total.energy.settle(event.ticket, DELIVERED)  # it asks for no update

    def _downloaded(self, event: trace.Downloaded) -> None:
        if event.ticket in self._total.final_tickets and not event.dropped:
            self._total.final_received[event.device] = event.sent + event.obtained

    def _arrived(self, event: trace.Arrived) -> None:
        total = self._total
        device = total.devices[event.device]
        total.arrived += 1
        total.clipped += event.clipped is not None
        device.to_aggregator += range_of(event.ticket) not in total.head_ranges
        if event.loss is not None and not self._is_for_cluster(event.ticket):
            total.losses.add(event.t, event.loss)
            device.last_loss = event.loss
            if device.first_loss is None:
                device.first_loss = event.loss

    def _grouped(self, event: trace.Grouped) -> None:
        self._total.head_ranges.add(event.ticket_range)

    # ---- how tickets end

    def _ended(self, event: trace.Rejected | trace.Lost | trace.Superseded) -> None:
        fate, device = type(event).__name__.lower(), self._total.devices[event.device]
        self._total.energy.settle(event.ticket, fate)
        for counted in (self._total, device):
            setattr(counted, fate, getattr(counted, fate) + 1)
        if isinstance(event, trace.Superseded):
            device.restarted.add(event.ticket)
        else:
            self._total.reasons[f"{fate}: {event.reason}"] += 1

    def _delivered(self, event: trace.Delivered) -> None:
        self._total.energy.settle(event.ticket, DELIVERED)
        self._total.delivered += 1

    def _resent(self, event: trace.Resent) -> None:
        self._total.resent += 1

    def _ignored(self, event: trace.Ignored) -> None:
        self._total.ignored += 1
        late = self._total.devices.get(event.device)
        if late is not None and late.trained == event.ticket:  # it ended before the newer model arrived
            late.abandon(event.ticket, late.last_job_s)

    # ---- versions

    def _aggregated(self, event: trace.Aggregated) -> None:
        total, energy = self._total, self._total.energy
        total.versions = event.version
        # a later version may use a ticket again; the ticket ended at its first use
        fresh = [ticket for ticket in event.tickets if not energy.has_ended(ticket)]
        total.applied += len(fresh)
        found = []
        for ticket, staleness in zip(fresh, event.staleness, strict=True):
            energy.settle(ticket, APPLIED)
            device = self._owner_of(ticket)
            device.applied += 1
            if not self._is_for_cluster(ticket):
                found.append(staleness)
                device.count_staleness(staleness)
        weights = [abs(weight or 0.0) for weight in event.weights]
        for ticket, weight in zip(event.tickets, weights, strict=True):
            if self._is_for_cluster(ticket):
                self._cluster_weight[ticket] = weight
            else:
                self._owner_of(ticket).weight += weight
        total.made.add(
            VersionTotals(
                t=event.t,
                version=event.version,
                updates=len(event.tickets),
                staleness=found,
                weight=sum(weights),
                plan=total.plan,
            )
        )

    def _merged(self, event: trace.Merged) -> None:
        """Add the updates that a cluster head merged into its update, which is part of the last version."""
        total = self._total
        total.applied += len(event.tickets)
        for ticket, weight, staleness in zip(event.tickets, event.weights, event.staleness, strict=True):
            device = self._owner_of(ticket)
            total.energy.settle(ticket, APPLIED)
            device.applied += 1
            device.count_staleness(staleness)
            device.weight += self._weight_of_cluster(event.ticket) * abs(weight or 0.0)
        made = total.made.last
        if made is None:
            raise ValueError(f"updates were merged into ticket {event.ticket}, but no version was made")
        made.updates += len(event.tickets) - 1  # they replace the head's own update
        made.staleness.extend(event.staleness)
