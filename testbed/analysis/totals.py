"""What a trace adds up to: one pass over its events."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from testbed.analysis.energy import APPLIED, DELIVERED, DeviceEnergy, EnergyAccount
from testbed.analysis.timeline import ABANDONED, COMPUTING, DEAD, DOWNLOAD, SUSPENDED, UPLOAD, WAITING, Timeline
from testbed.history import trace
from testbed.history.events.run_events import PROCESS_ENDED, UNREACHABLE
from testbed.history.trace import Event
from testbed.wire.messages import range_of


@dataclass(slots=True, kw_only=True)
class DeviceTotals:
    """One device over a whole run. Bytes count every attempt, the lost ones too: they were sent.

    A restarted device downloads beside its old work: that time counts in both, and the sum may exceed the run.
    """

    energy: DeviceEnergy
    pid: int = 0
    core: int | None = None
    samples: int = 0
    jobs: int = 0
    to_aggregator: int = 0
    """Updates that reached the aggregator itself, and not the head of a cluster."""
    applied: int = 0
    rejected: int = 0
    lost: int = 0
    superseded: int = 0
    drops: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    weight: float = 0.0
    """Sum of the weights that the rule gave its updates, in all versions that they went into."""
    losses: list[tuple[float, float]] = field(default_factory=list)
    """When each update arrived, and the mean loss in its local steps: the local model on local data."""
    abandoned_s: float = 0.0
    """Of the busy seconds, those spent on work that was thrown away because a newer model came."""
    asked_s: float = 0.0
    obtained_s: float = 0.0
    """Computing of the jobs that were finished and had a speed to keep: asked, and as the clock said."""
    missed: int = 0
    """Steps that missed their deadline."""
    host_cpu_s: float = 0.0
    host_waited_s: float = 0.0
    """Host seconds that its process ran, and waited for its core, in the jobs that it ended."""
    restarted: set[int] = field(default_factory=set)
    """Its tickets that the rule replaced, as long as their work is not counted as abandoned."""
    trained: int = 0
    last_job_s: float = 0.0
    """The last ticket whose computation ended, and what that took."""
    staleness: list[int] = field(default_factory=list)

    def waste(self, ticket: int, seconds: float) -> None:
        """Work was thrown away; it counts, once, if the rule wanted it so."""
        if ticket in self.restarted:
            self.restarted.discard(ticket)
            self.abandoned_s += seconds

    @property
    def busy_s(self) -> float:
        return self.energy.seconds[COMPUTING] + self.energy.seconds[ABANDONED]

    @property
    def download_s(self) -> float:
        return self.energy.seconds[DOWNLOAD]

    @property
    def upload_s(self) -> float:
        return self.energy.seconds[UPLOAD]

    @property
    def waiting_s(self) -> float:
        """For a grant to upload."""
        return self.energy.seconds[WAITING]

    @property
    def suspended_s(self) -> float:
        return self.energy.seconds[SUSPENDED]

    @property
    def dead_s(self) -> float:
        """Between a kill and a rejoin by the script: neither idle nor a drain on a battery."""
        return self.energy.seconds[DEAD]


@dataclass(slots=True, kw_only=True)
class VersionTotals:
    """A version, and what went into it."""

    t: float
    version: int
    updates: int
    """K_t."""
    staleness: list[int]
    """Of those that were new."""
    weight: float
    plan: trace.Planned | None = None
    """The round that it ends, of rules that plan them."""


@dataclass(slots=True, kw_only=True)
class Totals:
    """What a trace adds up to."""

    header: trace.Header | None = None
    stopped: trace.Stopped | None = None
    devices: dict[str, DeviceTotals] = field(default_factory=dict)
    energy: EnergyAccount = field(default_factory=EnergyAccount)
    moved: list[tuple[float, int]] = field(default_factory=list)
    """When each transfer ended, lost or not, and its bytes."""
    made: list[VersionTotals] = field(default_factory=list)
    plan: trace.Planned | None = None
    """The last one."""
    scores: list[trace.Scored] = field(default_factory=list)
    versions: int = 0
    dispatched: int = 0
    arrived: int = 0
    applied: int = 0
    rejected: int = 0
    lost: int = 0
    superseded: int = 0
    delivered: int = 0
    handed_out: dict[str, float] = field(default_factory=dict)
    """Device → when it was sent the final model, for rules that hand it out."""
    final_tickets: set[int] = field(default_factory=set)
    has_final: dict[str, float] = field(default_factory=dict)
    """Device → when it had it; the aggregator learned of that with the next heartbeat."""
    cluster_tickets: dict[int, float] = field(default_factory=dict)
    """Tickets of cluster heads → their weight in a version: it is that of what went into them."""
    books: set[int] = field(default_factory=set)
    """Of tickets that cluster heads give out."""
    resent: int = 0
    resumed: int = 0
    dilations: list[tuple[float, float]] = field(default_factory=list)
    """From which moment on, at which dilation: where the run was resumed."""
    ignored: int = 0
    refused: int = 0
    scripted: int = 0
    """Events of the profile that took effect, counted for each device."""
    restarts: int = 0
    """Processes that were forked anew for one that had died unasked."""
    rejoining: set[str] = field(default_factory=set)
    """Devices that the script, or the resumption of the run, has brought back: that life is no restart."""
    seconds: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)
    """Why updates were rejected or lost."""
    refusals: Counter[str] = field(default_factory=Counter)
    """Why messages and connections were refused."""

    @property
    def staleness(self) -> list[int]:
        return [staleness for made in self.made for staleness in made.staleness]

    @property
    def dilation(self) -> float:
        """The last one: a run that was resumed may have gone on at another."""
        return self.dilations[-1][1] if self.dilations else self._first_dilation

    @property
    def _first_dilation(self) -> float:
        return self.header.dilation if self.header is not None else 1.0

    def host_seconds(self, moment: float) -> float:
        """What the run took on the host by then."""
        changes = [(0.0, self._first_dilation), *self.dilations, (math.inf, 1.0)]
        return sum(
            (min(moment, until) - since) * dilation
            for (since, dilation), (until, _) in itertools.pairwise(changes)
            if since < moment
        )

    @property
    def in_flight(self) -> int:
        return self.dispatched - self.applied - self.rejected - self.lost - self.superseded - self.delivered


def totals(events: Iterable[Event]) -> Totals:
    """Add up a trace, in one pass."""
    total, timeline = Totals(), Timeline()
    owner: dict[int, str] = {}
    for event in events:
        if not isinstance(event, (trace.Scored, trace.Stopped)):
            total.seconds = max(total.seconds, event.t)
        if isinstance(event, trace.Joined):
            _join(event, total)
        for span in timeline.take(event):
            total.energy.spend(span)
        _count(event, total, owner)
        _count_device(event, total)
    if total.stopped is not None:
        total.seconds = total.stopped.t
    for span in timeline.end(total.seconds):
        total.energy.spend(span)
    total.energy.end(total.seconds)
    return total


def _join(event: trace.Joined, total: Totals) -> None:
    total.energy.join(event.device, event.watts, event.t)
    device = total.devices.get(event.device)
    if device is None:
        device = total.devices[event.device] = DeviceTotals(energy=total.energy.devices[event.device])
    elif device.pid != event.pid and event.device not in total.rejoining:
        total.restarts += 1  # (one that was only silent is the same process)
    total.rejoining.discard(event.device)
    device.pid, device.core, device.samples = event.pid, next(iter(event.cores), None), event.samples


def _count(event: Event, total: Totals, owner: dict[int, str]) -> None:
    match event:
        case trace.Header():
            total.header = event
        case trace.Dispatched():
            owner[event.ticket] = event.device
            total.dispatched += 1
            if event.for_cluster:
                total.cluster_tickets[event.ticket] = 0.0
            elif event.steps:
                total.devices[event.device].jobs += 1
            else:
                total.devices[event.device].restarted.clear()  # what it did is cut off by the end, not by a newer model
                total.handed_out[event.device] = event.t
                total.final_tickets.add(event.ticket)
                total.energy.fates[event.ticket] = DELIVERED  # it asks for no update
        case trace.Arrived():
            total.arrived += 1
            total.devices[event.device].to_aggregator += range_of(event.ticket) not in total.books
            if event.loss is not None and event.ticket not in total.cluster_tickets:
                total.devices[event.device].losses.append((event.t, event.loss))
        case trace.Planned():
            total.plan = event
        case trace.Aggregated():
            _count_version(event, total, owner)
        case trace.Grouped():
            total.books.add(event.ticket_range)
        case trace.Merged():
            _count_merged(event, total, owner)
        case trace.Rejected() | trace.Lost() | trace.Superseded():
            name = type(event).__name__.lower()
            total.energy.fates[event.ticket] = name
            setattr(total, name, getattr(total, name) + 1)
            if not isinstance(event, trace.Superseded):
                total.reasons[f"{name}: {event.reason}"] += 1
            setattr(total.devices[event.device], name, getattr(total.devices[event.device], name) + 1)
            if isinstance(event, trace.Superseded):
                total.devices[event.device].restarted.add(event.ticket)
        case trace.Delivered():
            total.energy.fates[event.ticket] = DELIVERED
            total.delivered += 1
        case trace.Downloaded() if event.ticket in total.final_tickets and not event.dropped:
            total.has_final[event.device] = event.sent + event.obtained
        case trace.Resent():
            total.resent += 1
        case trace.Resumed():
            total.resumed += 1
            total.dilations.append((event.t, event.dilation))
            total.rejoining.update(total.devices)
        case trace.Left() if event.reason in (PROCESS_ENDED, UNREACHABLE):
            total.rejoining.discard(event.device)
        case trace.Ignored():
            total.ignored += 1
            late = total.devices.get(event.device)
            if late is not None and late.trained == event.ticket:  # finished before the newer model was there
                late.waste(event.ticket, late.last_job_s)
        case trace.Refusal():
            total.refused += event.count
            total.refusals[event.reason] += event.count
        case trace.Scripted():
            total.scripted += 1
            if event.do == "rejoin":
                total.rejoining.add(event.device)
        case trace.Scored():
            total.scores.append(event)
        case trace.Stopped():
            total.stopped = event
        case _:
            pass


def _count_version(event: trace.Aggregated, total: Totals, owner: dict[int, str]) -> None:
    total.versions, fates = event.version, total.energy.fates
    # a ticket may be used again in a later version; it is settled at its first use
    fresh = [ticket for ticket in event.tickets if ticket not in fates]
    total.applied += len(fresh)
    found = []
    for ticket, staleness in zip(fresh, event.staleness, strict=True):
        fates[ticket] = APPLIED
        total.devices[owner[ticket]].applied += 1
        if ticket not in total.cluster_tickets:
            found.append(staleness)
            total.devices[owner[ticket]].staleness.append(staleness)
    weights = [abs(weight or 0.0) for weight in event.weights]
    for ticket, weight in zip(event.tickets, weights, strict=True):
        if ticket in total.cluster_tickets:
            total.cluster_tickets[ticket] = weight
        else:
            total.devices[owner[ticket]].weight += weight
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


def _count_merged(event: trace.Merged, total: Totals, owner: dict[int, str]) -> None:
    """What went into the last version through the head of a cluster."""
    total.applied += len(event.tickets)
    for ticket, weight, staleness in zip(event.tickets, event.weights, event.staleness, strict=True):
        device = total.devices[owner[ticket]]
        total.energy.fates[ticket] = APPLIED
        device.applied += 1
        device.staleness.append(staleness)
        device.weight += total.cluster_tickets[event.ticket] * abs(weight or 0.0)
    made = total.made[-1]
    made.updates += len(event.tickets) - 1  # in the place of what the head made of them
    made.staleness.extend(event.staleness)


def _count_device(event: Event, total: Totals) -> None:
    devices = total.devices
    if isinstance(event, trace.ComputeEvent):
        devices[event.device].missed += len(event.misses)
        if event.use is not None:
            devices[event.device].host_cpu_s += event.use.cpu
            devices[event.device].host_waited_s += event.use.waited
    match event:
        case trace.Downloaded() | trace.Uploaded():
            device = devices[event.device]
            device.drops += event.dropped
            total.moved.append((event.sent + event.obtained, event.bytes))
            if isinstance(event, trace.Uploaded):
                device.bytes_up += event.bytes
            else:
                device.bytes_down += event.bytes
        case trace.Trained():
            device = devices[event.device]
            device.trained, device.last_job_s = event.ticket, event.obtained
            if event.asked > 0:
                device.asked_s += event.asked
                device.obtained_s += event.obtained
        case trace.Abandoned():
            devices[event.device].waste(event.ticket, event.seconds)
        case _:
            pass
