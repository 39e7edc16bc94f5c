"""Semi-asynchronous and interval iterations: updates are kept, and then one version is made of them."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec
import numpy as np

from aggregator.strategy import Decision, Server, Strategy
from aggregator.strategy.vectors import add_scaled
from testbed.common.parameters import ParameterError, param
from testbed.wire.messages import Job, Update, Vector


@dataclass(kw_only=True)
class Collecting(Strategy):
    """Base of the paces that keep updates and then make one version of them."""

    unused: ClassVar[str] = "the rule left it out"
    """Why an update that came was not used, for the trace."""

    _gathered: list[Update] = field(default_factory=list, init=False, repr=False)

    def weights(self, updates: Sequence[Update], server: Server) -> Sequence[float]:
        """Weight of each update in x ← x + Σ weight·Δ; their mean, if nothing else is said.

        Rules that need more override :meth:`new_model`. There may be no update: an empty tick is an iteration too.
        """
        return [1 / len(updates) for _ in updates]

    def new_model(self, updates: Sequence[Update], server: Server) -> tuple[Vector, dict[int, float]]:
        """The next model out of what was gathered, and ticket → weight of each update in it.

        A ticket that is not named was not used: it is rejected.
        """
        weights = self.weights(updates, server)
        model = server.model.copy()
        for weight, update in zip(weights, updates, strict=True):
            add_scaled(model, weight, update.delta)
        return model, weighed(updates, weights)

    def _gather_latest(self, update: Update) -> dict[int, str]:
        """Keep it, in place of an older one of the same device: that one was restarted since. Gives what to reject."""
        older = [each for each in self._gathered if each.device == update.device]
        self._gathered = [*(each for each in self._gathered if each.device != update.device), update]
        return {each.ticket: "its device was restarted, and has sent another" for each in older}

    def on_join(self, device: str, server: Server) -> Decision:
        return self._aggregate_if_due(server, [device])

    def on_leave(self, device: str, server: Server) -> Decision:
        return self._aggregate_if_due(server, [])

    def on_ready(self, device: str, server: Server) -> Decision:
        return self._aggregate_if_due(server, [device])

    @abc.abstractmethod
    def _aggregate_if_due(self, server: Server, start: list[str]) -> Decision:
        """Decide, and dispatch to the devices in ``start`` in any case."""

    def _aggregate(self, server: Server) -> tuple[Decision, list[str]]:
        """Makes the version; what was gathered is used up. Gives also whom it came from."""
        updates, self._gathered = self._gathered, []
        model, applied = self.new_model(updates, server)
        rejected = {update.ticket: self.unused for update in updates if update.ticket not in applied}
        return Decision(model=model, applied=applied, rejected=rejected), [update.device for update in updates]


@dataclass(kw_only=True)
class EveryK(Collecting):
    """Semi-asynchronous: wait for K updates, make a version, send it to the devices they came from."""

    k: int = param(2, "K: updates per version", at_least=1)

    def check(self, devices: int) -> None:
        if self.k > devices:
            raise ParameterError(
                "k", f"is {self.k}; it must be at most {devices}, the devices of the fleet: lower it, or add devices"
            )

    def quorum(self, server: Server) -> int:
        """How many updates to wait for. Override for an adaptive K."""
        return self.k

    def holds(self, update: Update, server: Server) -> bool:
        """Whether the device waits for the version that its update goes into. Override to let it go on at once."""
        return True

    def interrupts(self, server: Server) -> Iterable[str]:
        """Busy devices that are restarted on the version that is just being made (``server.version`` + 1)."""
        return ()

    def on_start(self, server: Server) -> Decision:
        return Decision(train={device: self.job(device, server) for device in server.devices})

    def on_update(self, update: Update, server: Server) -> Decision:
        if not self.holds(update, server):
            self._gathered.append(update)
            return self._aggregate_if_due(server, [update.device])
        replaced = self._gather_latest(update)
        decision = self._aggregate_if_due(server, [])
        return msgspec.structs.replace(decision, rejected={**decision.rejected, **replaced})

    def _aggregate_if_due(self, server: Server, start: list[str]) -> Decision:
        # never wait for more than can still come: those at work, and those started just now
        can_come = len(self._gathered) + len(server.busy) + len(start)
        if not self._gathered or len(self._gathered) < min(self.quorum(server), can_come):
            return Decision(train={device: self.job(device, server) for device in start})
        decision, contributors = self._aggregate(server)
        started = [*start, *idle_devices(contributors, server), *self.interrupts(server)]
        return msgspec.structs.replace(decision, train={device: self.job(device, server) for device in started})


@dataclass(kw_only=True)
class KMixed(EveryK):
    """Of K local models x_i: x ← (1 − α)·x + α·Σ ρ_i x_i, with ρ_i ∝ n_i·s(τ_i) and Σρ = 1."""

    alpha: float = param(0.6, "α: mixing rate", above=0, at_most=1)

    @abc.abstractmethod
    def s(self, tau: int) -> float:
        """Weight by staleness; a fresh update has τ = 0."""

    def weights(self, updates: Sequence[Update], server: Server) -> Sequence[float]:
        shares = normalised([update.samples * self.s(server.staleness(update)) for update in updates])
        return [self.alpha * share for share in shares]

    def new_model(self, updates: Sequence[Update], server: Server) -> tuple[Vector, dict[int, float]]:
        weights = self.weights(updates, server)
        model: Vector = np.multiply(server.model, np.float32(1 - self.alpha))
        for weight, update in zip(weights, updates, strict=True):  # α·ρ_i, and x_i = base + Δ
            add_scaled(model, weight, server.model_at(update.version))
            add_scaled(model, weight, update.delta)
        return model, weighed(updates, weights)


@dataclass(kw_only=True)
class EveryTick(Collecting):
    """Interval iterations: the clock ticks and nobody waits. A tick that received nothing is an iteration too.

    The next tick comes from the schedule, not from now: a late wake does not move the ones after it.
    """

    interval: float = param(meaning="seconds per iteration", above=0)
    weighting: str = param("samples", "λ_i: share of the samples, or equal", choices=("samples", "equal"))

    _tick: int = field(default=0, init=False, repr=False)

    def share(self, device: str, server: Server) -> float:
        """What λ_i is proportional to."""
        return 1.0 if self.weighting == "equal" else float(server.known[device].samples)

    def total_share(self, server: Server) -> float:
        """Of every device that there ever was, so that their λ add up to 1."""
        return sum(self.share(device, server) for device in server.known)

    def on_start(self, server: Server) -> Decision:
        train = {device: self.job(device, server) for device in server.devices}
        return Decision(train=train, wake_at=self._next_tick())

    def on_update(self, update: Update, server: Server) -> Decision:
        # the tick first: an interval is half-open, so that one try per interval is one arrival per interval
        decision = self._aggregate_if_due(server, [])
        replaced = self._gather_latest(update)
        return msgspec.structs.replace(decision, rejected={**decision.rejected, **replaced})

    def on_wake(self, server: Server) -> Decision:
        return self._aggregate_if_due(server, [])

    def _next_tick(self) -> float:
        return (self._tick + 1) * self.interval

    def _aggregate_if_due(self, server: Server, start: list[str]) -> Decision:
        train: dict[str, Job] = {device: self.job(device, server) for device in start}
        if server.now < self._next_tick():
            return Decision(train=train, wake_at=self._next_tick())
        decision, contributors = self._aggregate(server)
        self._tick += 1
        train.update({device: self.job(device, server) for device in idle_devices(contributors, server)})
        return msgspec.structs.replace(decision, train=train, wake_at=self._next_tick())


def idle_devices(contributors: Iterable[str], server: Server) -> list[str]:
    """Those that are present and idle: one may have left since it delivered, or be back and at work again."""
    devices, busy = server.devices, server.busy  # made anew at each access
    return [device for device in contributors if device in devices and device not in busy]


def weighed(updates: Sequence[Update], weights: Sequence[float]) -> dict[int, float]:
    """Ticket → weight."""
    return {update.ticket: weight for update, weight in zip(updates, weights, strict=True)}


def normalised(shares: Sequence[float]) -> list[float]:
    """The same proportions with the sum 1; equal ones where all of them are too small for a float."""
    total = sum(shares)
    return [share / total for share in shares] if total > 0 else [1 / len(shares)] * len(shares)
