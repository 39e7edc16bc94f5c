"""What a trace adds up to: one pass over its events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from testbed import energy, trace
from testbed.trace import Event


@dataclass(slots=True, kw_only=True)
class DeviceTotals:
    """One device over a whole run. Bytes count every attempt, the lost ones too: they were sent.

    A restarted device downloads beside its old work: that time counts in both, and the sum may exceed the run.
    """

    pid: int = 0
    core: int | None = None
    samples: int = 0
    jobs: int = 0
    applied: int = 0
    rejected: int = 0
    lost: int = 0
    superseded: int = 0
    drops: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    busy_s: float = 0.0
    transfer_s: float = 0.0
    suspended_s: float = 0.0
    dead_s: float = 0.0
    """Between a kill and a rejoin by the script: neither idle nor a drain on a battery."""
    died: float | None = None
    """When it was killed, as long as it is dead."""
    abandoned_s: float = 0.0
    """Of the busy seconds, those spent on work that was thrown away because a newer model came."""
    watts: trace.Watts | None = None
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

    def lives_again(self, moment: float) -> None:
        if self.died is not None:
            self.dead_s, self.died = self.dead_s + max(0.0, moment - self.died), None

    def joules(self, seconds: float) -> float | None:
        return energy.joules(self.watts, seconds - self.dead_s, self.busy_s)


@dataclass(slots=True, kw_only=True)
class Totals:
    """What a trace adds up to."""

    header: trace.Header | None = None
    stopped: trace.Stopped | None = None
    devices: dict[str, DeviceTotals] = field(default_factory=dict)
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
    resent: int = 0
    ignored: int = 0
    refused: int = 0
    scripted: int = 0
    """Events of the profile that took effect, counted for each device."""
    seconds: float = 0.0
    staleness: list[int] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    """Why updates were rejected or lost."""

    @property
    def dilation(self) -> float:
        return self.header.dilation if self.header is not None else 1.0

    @property
    def in_flight(self) -> int:
        return self.dispatched - self.applied - self.rejected - self.lost - self.superseded - self.delivered


def totals(events: Iterable[Event]) -> Totals:
    """Add up a trace, in one pass."""
    total = Totals()
    owner: dict[int, str] = {}
    for event in events:
        if not isinstance(event, (trace.Scored, trace.Stopped)):
            total.seconds = max(total.seconds, event.t)
        _count(event, total, owner)
        _count_device(event, total.devices)
    if total.stopped is not None:
        total.seconds = total.stopped.t
    for device in total.devices.values():
        device.lives_again(total.seconds)  # who is dead at the end has been so until then
    return total


def _count(event: Event, total: Totals, owner: dict[int, str]) -> None:
    match event:
        case trace.Header():
            total.header = event
        case trace.Dispatched():
            owner[event.ticket] = event.device
            total.dispatched += 1
            if event.steps:
                total.devices[event.device].jobs += 1
            else:
                total.devices[event.device].restarted.clear()  # what it did is cut off by the end, not by a newer model
                total.handed_out[event.device] = event.t
                total.final_tickets.add(event.ticket)
        case trace.Arrived():
            total.arrived += 1
        case trace.Aggregated():
            total.versions = event.version
            # a ticket that is used again in a later version was counted, and popped, at its first use
            fresh = [ticket for ticket in event.tickets if ticket in owner]
            total.applied += len(fresh)
            total.staleness += event.staleness
            for ticket, staleness in zip(fresh, event.staleness, strict=True):
                device = total.devices[owner.pop(ticket)]
                device.applied += 1
                device.staleness.append(staleness)
        case trace.Rejected() | trace.Lost() | trace.Superseded():
            owner.pop(event.ticket, None)
            name = type(event).__name__.lower()
            setattr(total, name, getattr(total, name) + 1)
            if not isinstance(event, trace.Superseded):
                total.reasons[f"{name}: {event.reason}"] += 1
            setattr(total.devices[event.device], name, getattr(total.devices[event.device], name) + 1)
            if isinstance(event, trace.Superseded):
                total.devices[event.device].restarted.add(event.ticket)
        case trace.Delivered():
            owner.pop(event.ticket, None)
            total.delivered += 1
        case trace.Downloaded() if event.ticket in total.final_tickets and not event.dropped:
            total.has_final[event.device] = event.sent + event.obtained
        case trace.Resent():
            total.resent += 1
        case trace.Ignored():
            total.ignored += 1
            late = total.devices.get(event.device)
            if late is not None and late.trained == event.ticket:  # finished before the newer model was there
                late.waste(event.ticket, late.last_job_s)
        case trace.Refusal():
            total.refused += 1
        case trace.Scripted():
            total.scripted += 1
        case trace.Scored():
            total.scores.append(event)
        case trace.Stopped():
            total.stopped = event
        case _:
            pass


def _count_device(event: Event, devices: dict[str, DeviceTotals]) -> None:
    if isinstance(event, trace.ComputeEvent):
        devices[event.device].missed += len(event.misses)
        if event.use is not None:
            devices[event.device].host_cpu_s += event.use.cpu
            devices[event.device].host_waited_s += event.use.waited
    match event:
        case trace.Joined():
            device = devices.setdefault(event.device, DeviceTotals())
            device.pid, device.core, device.samples = event.pid, next(iter(event.cores), None), event.samples
            device.watts = event.watts
        case trace.Downloaded() | trace.Uploaded():
            device = devices[event.device]
            device.transfer_s += event.obtained - (event.held or 0.0)  # the rest is told as suspended
            device.drops += event.dropped
            if isinstance(event, trace.Uploaded):
                device.bytes_up += event.bytes
            else:
                device.bytes_down += event.bytes
        case trace.Trained():
            device = devices[event.device]
            device.busy_s += event.obtained
            device.trained, device.last_job_s = event.ticket, event.obtained
            if event.asked > 0:
                device.asked_s += event.asked
                device.obtained_s += event.obtained
        case trace.Abandoned():
            device = devices[event.device]
            if device.trained != event.ticket:  # abandoned in its upload, the computation has been counted already
                device.busy_s += event.seconds
            device.waste(event.ticket, event.seconds)
        case trace.Suspended():
            devices[event.device].suspended_s += event.obtained
        case trace.Scripted(do="kill"):
            devices[event.device].died = event.t
        case trace.Scripted(do="rejoin"):
            devices[event.device].lives_again(event.t)
        case _:
            pass
