"""Semi-asynchronous and interval paces: updates are collected, and one version is made of several."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec
import numpy as np

from aggregator.strategy import Decision, Server, Strategy
from aggregator.strategy.vectors import add_scaled
from testbed.common.number_limits import LONGEST, SHORTEST
from testbed.common.parameters import ParameterError, param
from testbed.wire.messages import Update, Vector
from testbed.wire.training_job import Job


@dataclass(kw_only=True)
class Collecting(Strategy):
    """Base of the paces that collect updates and make one version of them."""

    unused: ClassVar[str] = "the strategy left it out"
    """Why an update that arrived was not used, for the trace."""

    _collected: list[Update] = field(default_factory=list, init=False, repr=False)

    def weights(self, updates: Sequence[Update], server: Server) -> Sequence[float]:
        """Return the weight of each update in x ← x + Σ weight·Δ; by default, their mean.

        Strategies with another formula override :meth:`new_model`. There may be no update: an empty tick is an
        iteration too.
        """
        return [1 / len(updates) for _ in updates]

    def new_model(self, updates: Sequence[Update], server: Server) -> tuple[Vector, dict[int, float]]:
        """Return the next model and ticket → weight of each update in it. Other collected updates are rejected."""
        weights = self.weights(updates, server)
        model = server.model.copy()
        for weight, update in zip(weights, updates, strict=True):
            add_scaled(model, weight, update.delta)
        return model, weighed(updates, weights)

    def _collect_latest(self, update: Update) -> dict[int, str]:
        """Collect an update in place of an older one of the same device. Return the older ticket, to be rejected."""
        older = [each for each in self._collected if each.device == update.device]
        self._collected = [*(each for each in self._collected if each.device != update.device), update]
        return {each.ticket: "its device was restarted and sent a newer update" for each in older}

    def on_join(self, device: str, server: Server) -> Decision:
        return self._aggregate_if_due(server, [device])

    def on_leave(self, device: str, server: Server) -> Decision:
        return self._aggregate_if_due(server, [])

    def on_ready(self, device: str, server: Server) -> Decision:
        return self._aggregate_if_due(server, [device])

    @abc.abstractmethod
    def _aggregate_if_due(self, server: Server, start: list[str]) -> Decision:
        """Make a version if it is due. Dispatch to the devices in ``start`` in any case."""

    def _aggregate(self, server: Server) -> tuple[Decision, list[str]]:
        """Make a version of all collected updates. Return the decision and the devices of these updates."""
        updates, self._collected = self._collected, []
        model, applied = self.new_model(updates, server)
        rejected = {update.ticket: self.unused for update in updates if update.ticket not in applied}
        return Decision(model=model, applied=applied, rejected=rejected), [update.device for update in updates]


@dataclass(kw_only=True)
class EveryK(Collecting):
    """Semi-asynchronous: wait for K updates, make a version, send it to the devices of these updates."""

    k: int = param(2, "K: updates per version", at_least=1)

    def check(self, devices: int) -> None:
        if self.k > devices:
            raise ParameterError(
                "k", f"is {self.k}; it must be at most {devices}, the devices of the fleet: lower it, or add devices"
            )

    def quorum(self, server: Server) -> int:
        """Return the number of updates to wait for. Override it for an adaptive K."""
        return self.k

    def device_waits(self, update: Update, server: Server) -> bool:
        """Whether the device waits for the version with its update. Override it to start the device at once."""
        return True

    def interrupts(self, server: Server) -> Iterable[str]:
        """Return busy devices to be restarted on the new version (``server.version`` + 1)."""
        return ()

    def on_start(self, server: Server) -> Decision:
        return Decision(train={device: self.job(device, server) for device in server.devices})

    def on_update(self, update: Update, server: Server) -> Decision:
        if not self.device_waits(update, server):
            self._collected.append(update)
            return self._aggregate_if_due(server, [update.device])
        replaced = self._collect_latest(update)
        decision = self._aggregate_if_due(server, [])
        return msgspec.structs.replace(decision, rejected={**decision.rejected, **replaced})

    def _aggregate_if_due(self, server: Server, start: list[str]) -> Decision:
        # never wait for more updates than can arrive: those of busy devices and of devices that are started now
        can_come = len(self._collected) + len(server.busy) + len(start)
        if not self._collected or len(self._collected) < min(self.quorum(server), can_come):
            return Decision(train={device: self.job(device, server) for device in start})
        decision, contributors = self._aggregate(server)
        started = [*start, *idle_devices(contributors, server), *self.interrupts(server)]
        return msgspec.structs.replace(decision, train={device: self.job(device, server) for device in started})


@dataclass(kw_only=True)
class KMixed(EveryK):
    """Mixes K local models x_i: x ← (1 − α)·x + α·Σ ρ_i x_i, with ρ_i ∝ n_i·s(τ_i) and Σρ = 1."""

    alpha: float = param(0.6, "α: mixing weight", above=0, at_most=1)

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
    """Interval iterations: a version is made at every tick. A tick without updates is an iteration too.

    Ticks are multiples of the interval: a late wake does not delay the next tick.
    """

    interval: float = param(meaning="seconds per iteration", at_least=SHORTEST, at_most=LONGEST)
    weighting: str = param("samples", "λ_i: share of the samples, or equal", choices=("samples", "equal"))
    normalised: bool = param(False, "whether the λ of the devices in a version, instead of all devices, add up to 1")

    _tick: int = field(default=0, init=False, repr=False)

    def share(self, device: str, server: Server) -> float:
        """Return a number that λ_i is proportional to."""
        return 1.0 if self.weighting == "equal" else float(server.known[device].samples)

    def total_share(self, server: Server, used: Iterable[str]) -> float:
        """Return the sum over the devices whose λ add up to 1: every known one, or ``used`` if ``normalised``."""
        return sum(self.share(device, server) for device in (used if self.normalised else server.known))

    def on_start(self, server: Server) -> Decision:
        train = {device: self.job(device, server) for device in server.devices}
        return Decision(train=train, wake_at=self._next_tick())

    def on_update(self, update: Update, server: Server) -> Decision:
        # the tick comes first: an interval is half-open, so one attempt per interval is one arrival per interval
        decision = self._aggregate_if_due(server, [])
        replaced = self._collect_latest(update)
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
    """Return those that are present and idle: one may have left since, or have returned and be busy again."""
    devices, busy = server.devices, server.busy  # each access builds a new mapping
    return [device for device in contributors if device in devices and device not in busy]


def weighed(updates: Sequence[Update], weights: Sequence[float]) -> dict[int, float]:
    """Ticket → weight."""
    return {update.ticket: weight for update, weight in zip(updates, weights, strict=True)}


def normalised(shares: Sequence[float]) -> list[float]:
    """Return the shares scaled to the sum 1; equal shares if their sum is 0."""
    total = sum(shares)
    return [share / total for share in shares] if total > 0 else [1 / len(shares)] * len(shares)
