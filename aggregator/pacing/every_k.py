"""The semi-asynchronous pace: a version for every K updates."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from aggregator.pacing.collecting import Collecting, idle_devices, normalised, weighed
from aggregator.pacing.participants import Participants
from aggregator.strategy import Decision, Server
from aggregator.strategy.vectors import add_scaled
from testbed.common.parameters import ParameterError, param
from testbed.wire.messages import Update, Vector


@dataclass(kw_only=True)
class EveryK(Participants, Collecting):
    """Semi-asynchronous: wait for K updates, make a version, send it to the devices of these updates.

    With ``in_flight``, the version goes to idle devices that are drawn, those of the updates among them. A device that
    waits for the version with its update keeps its place until then.
    """

    k: int = param(2, "K: updates per version", at_least=1)

    def check(self, devices: int) -> None:
        super().check(devices)
        self.check_k(devices)

    def check_k(self, devices: int) -> None:
        """Refuse a K that so many devices cannot reach. Override it if no device waits for its version."""
        if self.k > devices:
            raise ParameterError(
                "k", f"is {self.k}; it must be at most {devices}, the devices of the fleet: lower it, or add devices"
            )
        if self.k > self.places(devices):
            allowed = f"at most {self.places(devices)}, the devices in flight"
            raise ParameterError("k", f"is {self.k}; it must be {allowed}: lower it, or raise in_flight")

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
        return Decision(train={device: self.job(device, server) for device in self.starts(server.devices, server)})

    def on_leave(self, device: str, server: Server) -> Decision:
        self.withdraw(device)
        return super().on_leave(device, server)

    def on_update(self, update: Update, server: Server) -> Decision:
        if not self.device_waits(update, server):
            self._collect(update)
            return self._aggregate_if_due(server, [update.device])
        replaced = self._collect_latest(update)
        decision = self._aggregate_if_due(server, [])
        return msgspec.structs.replace(decision, rejected={**decision.rejected, **replaced})

    def _aggregate_if_due(self, server: Server, idle: list[str]) -> Decision:
        started = self.starts(idle, server)
        # never wait for more updates than can arrive: those of busy devices and of devices that are started now
        can_come = len(self._collected) + len(server.busy) + len(started)
        if self._collected and len(self._collected) >= min(self.quorum(server), can_come):
            decision, contributors = self._aggregate(server)
            waited = [device for device in idle_devices(contributors, server) if device not in started]
            started = [*started, *self.starts(waited, server), *self.interrupts(server)]
        else:
            decision = Decision()
        return msgspec.structs.replace(decision, train={device: self.job(device, server) for device in started})


@dataclass(kw_only=True)
class Buffered(EveryK):
    """Buffered: K updates make a version, but no device waits for it, so each may be in the buffer several times."""

    def check_k(self, devices: int) -> None:
        """Any K fits any fleet."""

    def device_waits(self, update: Update, server: Server) -> bool:
        return False


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
