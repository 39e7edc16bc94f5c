"""Fully asynchronous."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from aggregator.pacing.round_ended import RoundEnded
from aggregator.pacing.spread import Executions
from aggregator.strategy import Decision, Reject, Server, Strategy
from aggregator.strategy.vectors import plus_scaled
from testbed.wire.messages import Job, Update, Vector


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

    def choose(self, free: Iterable[str], server: Server) -> Iterable[str]:
        """Who is started, now that these are free. Override where not all devices are in flight."""
        return free

    def ended_round(self, update: Update, server: Server) -> Executions | None:
        """What the round was that ends with this update, if one does. Override where the paper counts rounds."""
        return None

    def on_start(self, server: Server) -> Decision:
        return Decision(train=self._starts(server.devices, server))

    def on_join(self, device: str, server: Server) -> Decision:
        return Decision(train=self._starts([device], server))

    def on_leave(self, device: str, server: Server) -> Decision:
        return Decision(train=self._starts([], server))

    def on_ready(self, device: str, server: Server) -> Decision:
        return Decision(train=self._starts([device], server))

    def on_update(self, update: Update, server: Server) -> Decision:
        ended = self.ended_round(update, server)
        orders = () if ended is None else (RoundEnded(ended),)
        try:
            model, weight = self.new_model(update, server)
        except Reject as reason:
            train = self._starts([update.device], server)
            return Decision(rejected={update.ticket: str(reason)}, train=train, orders=orders)
        train = self._starts([update.device], server)
        return Decision(model=model, applied={update.ticket: weight}, train=train, orders=orders)

    def _starts(self, free: Iterable[str], server: Server) -> dict[str, Job]:
        return {device: self.job(device, server) for device in self.choose(free, server)}
