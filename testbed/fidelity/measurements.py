"""The measurements of timing in a trace; ``testbed.fidelity.evidence`` gathers them and explains how."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import msgspec

from testbed.common.files.spool import Spool
from testbed.history import trace

_CLOCK_GRAIN = 1e-6


@dataclass(slots=True, kw_only=True)
class Computed:
    """The computing of one device."""

    checks: int = 0
    misses: int = 0
    asked: float = 0.0
    obtained: float = 0.0
    """Seconds of finished jobs."""
    trips: int = 0
    trips_asked: float = 0.0
    trips_obtained: float = 0.0
    """Complete round trips, and their seconds."""
    waited: float = 0.0
    stolen: float = 0.0
    critical: float = 0.0
    """Host seconds: waiting for its core, the part of that in stretches with a missed deadline, and with deadlines."""
    worst_job: float = 0.0
    """Largest stolen share of one job."""
    metered: bool = False


class Delivery(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A transfer that arrived or was lost."""

    device: str
    up: bool
    job: int
    attempt: int
    sent: float
    asked: float
    arrived: float | None
    """When it arrived; None if it was lost or its arrival is not recorded."""
    seen: float | None
    """When the receiver handled it, which must not be before it was due."""
    dropped: bool
    absent: float = 0.0
    """The part of ``asked`` that fell into an absence of the device."""

    @property
    def is_early(self) -> bool:
        return self.seen is not None and self.seen < self.sent + self.asked - _CLOCK_GRAIN

    @property
    def late(self) -> float:
        assert self.arrived is not None
        return self.arrived - self.sent - self.asked


@dataclass(slots=True, kw_only=True)
class LoadSums:
    """The load of the aggregator over the whole run, in host seconds."""

    span: float = 0.0
    busy: float = 0.0
    served: int = 0
    service: float = 0.0
    longest: float = 0.0
    pressure: float | None = None
    """The highest of all stretches; None if it was not measured."""

    def add(self, load: trace.Load) -> None:
        self.span += load.span
        self.busy += load.busy
        self.served += load.served
        self.service += load.service
        self.longest = max(self.longest, load.longest)
        if load.pressure is not None:
            self.pressure = load.pressure if self.pressure is None else max(self.pressure, load.pressure)


@dataclass(slots=True)
class CanarySums:
    """The samples of the canary on one core."""

    slower: float = 0.0
    """Sum of obtained ÷ alone − 1."""
    samples: int = 0


@dataclass(slots=True, kw_only=True)
class Evidence:
    header: trace.Header | None = None
    stopped: trace.Stopped | None = None
    computed: dict[str, Computed] = field(default_factory=lambda: defaultdict(Computed))
    errors: Spool = field(default_factory=Spool)
    """|obtained ÷ asked − 1| from one checked deadline to the next, without those that are zero."""
    pickups: Spool = field(default_factory=Spool)
    """Seconds from a model's due moment until the device's process took it from the transport."""
    handled: Spool = field(default_factory=Spool)
    """Seconds from an update's due moment until the aggregator handled it, including the queue."""
    load: LoadSums = field(default_factory=LoadSums)
    canaries: dict[int, CanarySums] = field(default_factory=lambda: defaultdict(CanarySums))
    """By core."""
    too_early: int = 0
    """Downloads that began before the aggregator sent them."""
    out_of_order: int = 0
    bytes_wrong: int = 0
    settled: Counter[str] = field(default_factory=Counter)
    dispatched: int = 0
    settled_twice: int = 0
