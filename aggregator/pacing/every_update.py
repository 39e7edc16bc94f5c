"""The fully asynchronous pace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from aggregator.pacing.participants import Participants
from aggregator.pacing.round_ended import RoundEnded
from aggregator.pacing.spread import Executions
from aggregator.strategy import Decision, Reject, Server
from aggregator.strategy.vectors import plus_scaled
from testbed.wire.messages import Update, Vector
from testbed.wire.training_job import Job


@dataclass(kw_only=True)
class EveryUpdate(Participants):
    """Fully asynchronous: each update makes a version, and its device continues with that version.

    With ``in_flight``, an idle device that is drawn continues instead, perhaps the same.

    Override :meth:`weight` if the aggregation rule is x ← x + weight·Δ, else :meth:`new_model`. Both may raise
    ``Reject``.
    """

    def weight(self, update: Update, server: Server) -> float:
        return 1.0

    def new_model(self, update: Update, server: Server) -> tuple[Vector, float]:
        """Return the next model and the weight of the update in it."""
        weight = self.weight(update, server)
        return plus_scaled(server.model, weight, update.delta), weight

    def choose(self, idle: Iterable[str], server: Server) -> Iterable[str]:
        """Return the devices to start, given that these have become idle. Override it for a selection of your own."""
        return self.starts(idle, server)

    def ended_round(self, update: Update, server: Server) -> Executions | None:
        """Return the round that ends with this update, or None. Override it if the paper counts rounds."""
        return None

    def on_start(self, server: Server) -> Decision:
        return Decision(train=self._jobs(server.devices, server))

    def on_join(self, device: str, server: Server) -> Decision:
        return Decision(train=self._jobs([device], server))

    def on_leave(self, device: str, server: Server) -> Decision:
        self.withdraw(device)
        return Decision(train=self._jobs([], server))

    def on_ready(self, device: str, server: Server) -> Decision:
        return Decision(train=self._jobs([device], server))

    def on_update(self, update: Update, server: Server) -> Decision:
        ended = self.ended_round(update, server)
        orders = () if ended is None else (RoundEnded(ended),)
        try:
            model, weight = self.new_model(update, server)
        except Reject as reason:
            train = self._jobs([update.device], server)
            return Decision(rejected={update.ticket: str(reason)}, train=train, orders=orders)
        train = self._jobs([update.device], server)
        return Decision(model=model, applied={update.ticket: weight}, train=train, orders=orders)

    def _jobs(self, idle: Iterable[str], server: Server) -> dict[str, Job]:
        return {device: self.job(device, server) for device in self.choose(idle, server)}
