"""The synchronous pace: rounds."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace

from aggregator.pacing.participants import FractionInFlight
from aggregator.pacing.round_ended import RoundEnded
from aggregator.pacing.spread import DelaySpread
from aggregator.strategy import Decision, Server
from aggregator.strategy.vectors import add_scaled
from testbed.common.number_limits import LONGEST, SHORTEST
from testbed.common.parameters import param
from testbed.wire.messages import Update, Vector


@dataclass(kw_only=True)
class EveryRound(FractionInFlight):
    """Synchronous: choose devices, wait for all of them or for the deadline, make a version, choose again.

    The version is x + Σ share·Δ / Σ share, unless :meth:`step` is overridden. Only the sum is kept, so memory does not
    grow with the fleet. If the shares add up to 0, the version is x.

    A device that keeps its base (``on_lost_download = "old_base"``) may train on an older model than the round's. It
    was chosen for this round and is waited for, so its Δ counts as any other; its staleness is recorded.

    ``in_flight`` is the number of devices of a round. They are drawn from all present devices, as with ``fraction``: a
    device that is late for its round may be drawn again, and is restarted.
    """

    fraction: float = param(1.0, "C: share of the devices chosen for a round", above=0, at_most=1)
    deadline: float | None = param(
        None, "seconds after which a round closes with what it has", at_least=SHORTEST, at_most=LONGEST
    )

    _awaited: set[str] = field(default_factory=set, init=False, repr=False)
    _opened: int | None = field(default=None, init=False, repr=False)
    """Version that was sent to the devices of the open round; None if no device is present."""
    _closes_at: float | None = field(default=None, init=False, repr=False)
    _sum: Vector | None = field(default=None, init=False, repr=False)
    _shares: dict[int, float] = field(default_factory=dict, init=False, repr=False)
    _spread: DelaySpread = field(default_factory=DelaySpread, init=False, repr=False)

    def choose(self, server: Server) -> Iterable[str]:
        """Return the devices of the next round, chosen from the present ones: by default max(⌊C·N⌋, 1) at random."""
        chosen = self.pool.draw(self.places(len(server.devices)), server.random)
        self.enter(chosen, server)
        return chosen

    @abc.abstractmethod
    def share(self, update: Update, server: Server) -> float:
        """Return the weight of an update relative to the others of its round."""

    def step(self, mean: Vector, server: Server) -> Vector:
        """Return the next model, given Σ share·Δ / Σ share. It may be made in the memory of ``mean``."""
        mean += server.model
        return mean

    def on_start(self, server: Server) -> Decision:
        self.enter(server.devices, server)
        return self._open(server, server.version)

    def on_join(self, device: str, server: Server) -> Decision:
        self.enter([device], server)
        return self._close_if_due(server)

    def on_leave(self, device: str, server: Server) -> Decision:
        self.withdraw(device)
        self._awaited.discard(device)
        return self._close_if_due(server)

    def on_ready(self, device: str, server: Server) -> Decision:
        self._awaited.discard(device)
        return self._close_if_due(server)

    def on_update(self, update: Update, server: Server) -> Decision:
        if update.device not in self._awaited:
            return replace(self._close_if_due(server), rejected={update.ticket: "its round had closed"})
        self._awaited.discard(update.device)
        self._spread.add(update)
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
            # a round without an update stays open after its deadline: else all devices would be restarted forever
            return Decision(wake_at=None if overdue else self._closes_at)
        if self._sum is None:
            return self._open(server, server.version)
        total = sum(self._shares.values())
        mean, self._sum = self._sum, None
        mean *= np.float32(1.0 / total if total > 0 else 0.0)
        model = self.step(mean, server)
        applied = {ticket: share / total if total > 0 else 0.0 for ticket, share in self._shares.items()}
        self._shares.clear()
        ended = self._spread.close()
        return replace(
            self._open(server, server.version + 1), model=model, applied=applied, orders=(RoundEnded(ended),)
        )

    def _open(self, server: Server, version: int) -> Decision:
        self._awaited = set(self.choose(server)) if server.devices else set()
        self._opened = version if self._awaited else None
        self._closes_at = server.now + self.deadline if self._awaited and self.deadline is not None else None
        train = {device: self.job(device, server) for device in sorted(self._awaited)}
        return Decision(train=train, wake_at=self._closes_at)
