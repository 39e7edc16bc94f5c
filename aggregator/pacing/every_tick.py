"""The interval pace: a version at every tick."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from aggregator.pacing.collecting import Collecting, idle_devices
from aggregator.pacing.participants import Participants
from aggregator.strategy import Decision, Server
from testbed.common.number_limits import LONGEST, SHORTEST
from testbed.common.parameters import param
from testbed.wire.messages import Update


@dataclass(kw_only=True)
class EveryTick(Participants, Collecting):
    """Interval iterations: a version is made at every tick. A tick without updates is an iteration too.

    Ticks are multiples of the interval: a late wake does not delay the next tick. A device that has delivered waits for
    the tick. With ``in_flight``, it keeps its place until then.
    """

    interval: float = param(meaning="seconds per iteration", at_least=SHORTEST, at_most=LONGEST)
    weighting: str = param("samples", "λ_i: share of the samples, or equal", choices=("samples", "equal"))
    normalised: bool = param(False, "whether the λ of the devices in a version, instead of all devices, add up to 1")

    _tick: int = field(default=0, init=False, repr=False)
    _total_share: float | None = field(default=None, init=False, repr=False)
    """Σ share over all known devices; None if a device has joined since it was computed."""

    def share(self, device: str, server: Server) -> float:
        """Return a number that λ_i is proportional to. It may change only when a device joins."""
        return 1.0 if self.weighting == "equal" else float(server.known[device].samples)

    def total_share(self, server: Server, used: Iterable[str]) -> float:
        """Return the sum over the devices whose λ add up to 1: every known one, or ``used`` if ``normalised``."""
        if self.normalised:
            return sum(self.share(device, server) for device in used)
        if self._total_share is None:
            self._total_share = sum(self.share(device, server) for device in server.known)
        return self._total_share

    def on_start(self, server: Server) -> Decision:
        train = {device: self.job(device, server) for device in self.starts(server.devices, server)}
        return Decision(train=train, wake_at=self._next_tick())

    def on_join(self, device: str, server: Server) -> Decision:
        self._total_share = None
        return super().on_join(device, server)

    def on_leave(self, device: str, server: Server) -> Decision:
        self.withdraw(device)
        return super().on_leave(device, server)

    def on_update(self, update: Update, server: Server) -> Decision:
        # the tick comes first: an interval is half-open, so one attempt per interval is one arrival per interval
        decision = self._aggregate_if_due(server, [])
        replaced = self._collect_latest(update)
        return msgspec.structs.replace(decision, rejected={**decision.rejected, **replaced})

    def on_wake(self, server: Server) -> Decision:
        return self._aggregate_if_due(server, [])

    def _next_tick(self) -> float:
        return (self._tick + 1) * self.interval

    def _aggregate_if_due(self, server: Server, idle: list[str]) -> Decision:
        started, decision = self.starts(idle, server), Decision()
        if server.now >= self._next_tick():
            decision, contributors = self._aggregate(server)
            self._tick += 1
            waited = [device for device in idle_devices(contributors, server) if device not in started]
            started += self.starts(waited, server)
        train = {device: self.job(device, server) for device in started}
        return msgspec.structs.replace(decision, train=train, wake_at=self._next_tick())
