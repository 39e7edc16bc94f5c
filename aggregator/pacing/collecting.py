"""What the semi-asynchronous and the interval pace share: updates are collected, and one version is made of several."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from aggregator.strategy import Decision, Server, Strategy
from aggregator.strategy.vectors import add_scaled
from testbed.wire.messages import Update, Vector


@dataclass(kw_only=True)
class Collecting(Strategy):
    """Base of the paces that collect updates and make one version of them."""

    unused: ClassVar[str] = "the strategy left it out"
    """Why an update that arrived was not used, for the trace."""

    _collected: list[Update] = field(default_factory=list, init=False, repr=False)
    _contributors: set[str] = field(default_factory=set, init=False, repr=False)
    """The devices of these updates."""

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

    def _collect(self, update: Update) -> None:
        self._collected.append(update)
        self._contributors.add(update.device)

    def _collect_latest(self, update: Update) -> dict[int, str]:
        """Collect an update in place of an older one of the same device. Return the older ticket, to be rejected."""
        older = self._discard_updates(update.device)
        self._collect(update)
        return {each.ticket: "its device was restarted and sent a newer update" for each in older}

    def _discard_updates(self, device: str) -> list[Update]:
        """Remove and return the collected updates of a device; mostly there are none."""
        if device not in self._contributors:
            return []
        self._contributors.remove(device)
        discarded = [each for each in self._collected if each.device == device]
        self._collected = [each for each in self._collected if each.device != device]
        return discarded

    def on_join(self, device: str, server: Server) -> Decision:
        return self._aggregate_if_due(server, [device])

    def on_leave(self, device: str, server: Server) -> Decision:
        return self._aggregate_if_due(server, [])

    def on_ready(self, device: str, server: Server) -> Decision:
        return self._aggregate_if_due(server, [device])

    @abc.abstractmethod
    def _aggregate_if_due(self, server: Server, idle: list[str]) -> Decision:
        """Make a version if it is due. The devices in ``idle`` may be started in any case."""

    def _aggregate(self, server: Server) -> tuple[Decision, list[str]]:
        """Make a version of all collected updates. Return the decision and the devices of these updates."""
        updates, self._collected = self._collected, []
        self._contributors.clear()
        model, applied = self.new_model(updates, server)
        rejected = {update.ticket: self.unused for update in updates if update.ticket not in applied}
        return Decision(model=model, applied=applied, rejected=rejected), [update.device for update in updates]


def idle_devices(contributors: Iterable[str], server: Server) -> list[str]:
    """Return those that are present and idle: one may have left since, or have returned and be busy again."""
    devices, busy = server.devices, server.busy
    return [device for device in contributors if device in devices and device not in busy]


def weighed(updates: Sequence[Update], weights: Sequence[float]) -> dict[int, float]:
    """Ticket → weight."""
    return {update.ticket: weight for update, weight in zip(updates, weights, strict=True)}


def weighted_sum(updates: Sequence[Update], weights: Sequence[float]) -> Vector:
    """Σ weight·Δ, as a new vector. There must be an update."""
    total = np.zeros_like(updates[0].delta)
    for update, weight in zip(updates, weights, strict=True):
        add_scaled(total, weight, update.delta)
    return total


def normalised(shares: Sequence[float]) -> list[float]:
    """Return the shares scaled to the sum 1; equal shares if their sum is 0."""
    total = sum(shares)
    return [share / total for share in shares] if total > 0 else [1 / len(shares)] * len(shares)
