"""When to aggregate. A rule inherits its pace from here and says only what happens then.

Liveness is the contract that breaks: a rule must never wait for more than can still come. So handlers only record,
one private ``_…_if_due`` decides, and *every* event calls it.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace

from aggregator.strategy import Decision, Reject, Server, Strategy
from aggregator.vectors import add_scaled, plus_scaled
from testbed.messages import Job, Update, Vector
from testbed.parameters import param


@dataclass(kw_only=True)
class EveryUpdate(Strategy):
    """Fully asynchronous: each update makes a version, and its device goes on with that version.

    Override :meth:`weight` if the rule is x ← x + weight·Δ, else :meth:`new_model`. Either may raise ``Reject``.
    """

    def weight(self, update: Update, server: Server) -> float:
        return 1.0

    def new_model(self, update: Update, server: Server) -> tuple[Vector, float]:
        """The next model, and the weight that the update has in it."""
        weight = self.weight(update, server)
        return plus_scaled(server.model, weight, update.delta), weight

    def on_start(self, server: Server) -> Decision:
        return self._dispatch(server.devices, server)

    def on_join(self, device: str, server: Server) -> Decision:
        return self._dispatch([device], server)

    def on_leave(self, device: str, server: Server) -> Decision:
        return Decision()

    def on_ready(self, device: str, server: Server) -> Decision:
        return self._dispatch([device], server)

    def on_update(self, update: Update, server: Server) -> Decision:
        try:
            model, weight = self.new_model(update, server)
        except Reject as reason:
            return Decision(
                rejected={update.ticket: str(reason)}, train={update.device: self.job(update.device, server)}
            )
        return Decision(
            model=model, applied={update.ticket: weight}, train={update.device: self.job(update.device, server)}
        )

    def _dispatch(self, devices: Iterable[str], server: Server) -> Decision:
        return Decision(train={device: self.job(device, server) for device in devices})


@dataclass(kw_only=True)
class _Collecting(Strategy):
    """Base of the paces that keep updates and then make one version of them."""

    _gathered: list[Update] = field(default_factory=list, init=False, repr=False)

    @abc.abstractmethod
    def weights(self, updates: Sequence[Update], server: Server) -> Sequence[float]:
        """Weight of each update in x ← x + Σ weight·Δ. Rules that need more override :meth:`new_model`.

        There may be none: a tick that received nothing is an iteration too.
        """

    def new_model(self, updates: Sequence[Update], server: Server) -> tuple[Vector, Sequence[float]]:
        """The next model out of what was gathered, and the weight of each update in it."""
        weights = self.weights(updates, server)
        model = server.model.copy()
        for weight, update in zip(weights, updates, strict=True):
            add_scaled(model, weight, update.delta)
        return model, weights

    def on_join(self, device: str, server: Server) -> Decision:
        return self._aggregate_if_due(server, [device])

    def on_leave(self, device: str, server: Server) -> Decision:
        return self._aggregate_if_due(server, [])

    def on_ready(self, device: str, server: Server) -> Decision:
        return self._aggregate_if_due(server, [device])

    @abc.abstractmethod
    def _aggregate_if_due(self, server: Server, start: list[str]) -> Decision:
        """Decide, and dispatch to the devices in ``start`` in any case."""

    def _aggregate(self, server: Server) -> tuple[Vector, dict[int, float]]:
        """Makes the version; what was gathered is used up."""
        updates, self._gathered = self._gathered, []
        model, weights = self.new_model(updates, server)
        return model, {update.ticket: weight for update, weight in zip(updates, weights, strict=True)}


@dataclass(kw_only=True)
class EveryK(_Collecting):
    """Semi-asynchronous: wait for K updates, make a version, send it to the devices they came from."""

    k: int = param(2, "updates per version", at_least=1)

    def quorum(self, server: Server) -> int:
        """How many updates to wait for. Override for an adaptive K."""
        return self.k

    def on_start(self, server: Server) -> Decision:
        return Decision(train={device: self.job(device, server) for device in server.devices})

    def on_update(self, update: Update, server: Server) -> Decision:
        self._gathered.append(update)
        return self._aggregate_if_due(server, [])

    def _aggregate_if_due(self, server: Server, start: list[str]) -> Decision:
        # never wait for more than can still come: those at work, and those started just now
        can_come = len(self._gathered) + len(server.busy) + len(start)
        if not self._gathered or len(self._gathered) < min(self.quorum(server), can_come):
            return Decision(train={device: self.job(device, server) for device in start})
        contributors = [update.device for update in self._gathered]
        model, applied = self._aggregate(server)
        train = {device: self.job(device, server) for device in [*start, *_free(contributors, server)]}
        return Decision(model=model, applied=applied, train=train)


@dataclass(kw_only=True)
class EveryRound(Strategy):
    """Synchronous: choose devices, wait for all of them or for the deadline, make a version, choose again.

    The version is x + Σ share·Δ / Σ share. The sum is kept, not the updates: memory does not grow with the fleet.
    """

    deadline: float | None = param(None, "seconds after which a round closes with what it has", above=0)

    _awaited: set[str] = field(default_factory=set, init=False, repr=False)
    _opened: int | None = field(default=None, init=False, repr=False)
    """Version that the round in progress trains on; None between rounds, when nobody is there."""
    _closes_at: float | None = field(default=None, init=False, repr=False)
    _sum: Vector | None = field(default=None, init=False, repr=False)
    _shares: dict[int, float] = field(default_factory=dict, init=False, repr=False)

    @abc.abstractmethod
    def choose(self, server: Server) -> Iterable[str]:
        """The devices of the next round, out of those present (at least one)."""

    @abc.abstractmethod
    def share(self, update: Update, server: Server) -> float:
        """Weight of an update relative to the others of its round."""

    def on_start(self, server: Server) -> Decision:
        return self._open(server, server.version)

    def on_join(self, device: str, server: Server) -> Decision:
        return self._close_if_due(server)

    def on_leave(self, device: str, server: Server) -> Decision:
        self._awaited.discard(device)
        return self._close_if_due(server)

    def on_ready(self, device: str, server: Server) -> Decision:
        self._awaited.discard(device)
        return self._close_if_due(server)

    def on_update(self, update: Update, server: Server) -> Decision:
        if update.device not in self._awaited or update.version != self._opened:
            return replace(self._close_if_due(server), rejected={update.ticket: "its round had closed"})
        self._awaited.discard(update.device)
        self._shares[update.ticket] = share = self.share(update, server)
        if self._sum is None:
            self._sum = np.multiply(update.delta, np.float32(share))
        else:
            add_scaled(self._sum, share, update.delta)
        return self._close_if_due(server)

    def on_wake(self, server: Server) -> Decision:
        return self._close_if_due(server)

    def _close_if_due(self, server: Server) -> Decision:
        overdue = self._closes_at is not None and server.now >= self._closes_at
        if self._opened is not None and self._awaited and (self._sum is None or not overdue):
            # a round that has nothing stays open past its deadline: closing it would restart everyone, for ever
            return Decision(wake_at=None if overdue else self._closes_at)
        if self._sum is None:
            return self._open(server, server.version)
        total = sum(self._shares.values())
        model, self._sum = self._sum, None
        model *= np.float32(1.0 / total)
        model += server.model
        applied = {ticket: share / total for ticket, share in self._shares.items()}
        self._shares.clear()
        return replace(self._open(server, server.version + 1), model=model, applied=applied)

    def _open(self, server: Server, version: int) -> Decision:
        self._awaited = set(self.choose(server)) if server.devices else set()
        self._opened = version if self._awaited else None
        self._closes_at = server.now + self.deadline if self._awaited and self.deadline is not None else None
        train = {device: self.job(device, server) for device in sorted(self._awaited)}
        return Decision(train=train, wake_at=self._closes_at)


@dataclass(kw_only=True)
class EveryTick(_Collecting):
    """Interval iterations: the clock ticks and nobody waits. A tick that received nothing is an iteration too.

    The next tick comes from the schedule, not from now: a late wake does not move the ones after it.
    """

    interval: float = param(1.0, "seconds per iteration", above=0)

    _tick: int = field(default=0, init=False, repr=False)

    def on_start(self, server: Server) -> Decision:
        train = {device: self.job(device, server) for device in server.devices}
        return Decision(train=train, wake_at=self._next_tick())

    def on_update(self, update: Update, server: Server) -> Decision:
        decision = self._aggregate_if_due(server, [])
        self._gathered.append(update)  # after the tick: what comes late belongs to the interval it comes in
        return decision

    def on_wake(self, server: Server) -> Decision:
        return self._aggregate_if_due(server, [])

    def _next_tick(self) -> float:
        return (self._tick + 1) * self.interval

    def _aggregate_if_due(self, server: Server, start: list[str]) -> Decision:
        train: dict[str, Job] = {device: self.job(device, server) for device in start}
        if server.now < self._next_tick():
            return Decision(train=train, wake_at=self._next_tick())
        contributors = [update.device for update in self._gathered]
        model, applied = self._aggregate(server)
        self._tick += 1
        train.update({device: self.job(device, server) for device in _free(contributors, server)})
        return Decision(model=model, applied=applied, train=train, wake_at=self._next_tick())


def _free(contributors: Iterable[str], server: Server) -> list[str]:
    """Those that are present and idle: one may have left since it delivered, or be back and at work again."""
    devices, busy = server.devices, server.busy  # made anew at each access
    return [device for device in contributors if device in devices and device not in busy]
