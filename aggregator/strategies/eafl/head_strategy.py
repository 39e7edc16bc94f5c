"""The strategy of a cluster head: wait for the fastest members, merge their updates, send the result up (SAA)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from aggregator.strategies.eafl.cluster_orders import PassUp
from aggregator.strategies.eafl.two_stage import merge_weights, saa
from aggregator.strategy import Decision, Server, Strategy
from testbed.wire.messages import Update


class HeadStrategy(Strategy):
    """SAA: wait for the fastest ⌈φ·|X_n|⌉ members, and weight their updates by samples and staleness.

    Updates that arrive while the head waits for the next model are the first ones in the next result; if they are more
    than the quorum, the rest goes into the result after it. A device whose update waits gets no further job until the
    update is used, so every update is used.
    """

    def __init__(self, quorum: int, damped: bool) -> None:
        self.quorum, self._damped = quorum, damped
        self._gathered: list[Update] = []
        self._waits = False
        """Whether the result has been sent and the next model has not arrived."""

    def on_start(self, server: Server) -> Decision:
        return self.on_model(server)

    def on_model(self, server: Server) -> Decision:
        """Send a new model to all idle members, except those whose updates wait: these are used first."""
        self._waits = False
        waiting = {update.device for update in self._gathered}
        idle = [device for device in server.devices if device not in server.busy and device not in waiting]
        return self._merge_if_due(server, idle)

    def pause(self) -> None:
        """Merge nothing more until the next model: a result is not wanted."""
        self._waits = True

    @property
    def keeps_updates(self) -> bool:
        return True

    def on_join(self, device: str, server: Server) -> Decision:
        return self._merge_if_due(server, [device] if device not in server.busy else [])  # or it carries a job

    def on_leave(self, device: str, server: Server) -> Decision:
        return self._merge_if_due(server, [])

    def on_ready(self, device: str, server: Server) -> Decision:
        return self._merge_if_due(server, [device])

    def on_update(self, update: Update, server: Server) -> Decision:
        self._gathered.append(update)
        return self._merge_if_due(server, [])

    def on_wake(self, server: Server) -> Decision:
        return self._merge_if_due(server, [])

    def _merge_if_due(self, server: Server, idle: Sequence[str]) -> Decision:
        train = {device: self.job(device, server) for device in idle}
        if self._waits or len(self._gathered) < max(1, self.quorum):
            return Decision(train=train, wake_at=math.inf)
        count = max(1, self.quorum)
        merged, self._gathered, self._waits = self._gathered[:count], self._gathered[count:], True
        samples, staleness = [update.samples for update in merged], [server.staleness(update) for update in merged]
        result = saa([update.delta for update in merged], samples, staleness, damped=self._damped)
        weights = merge_weights(samples, staleness, damped=self._damped)
        tickets = [update.ticket for update in merged]
        passed = tuple(zip(tickets, weights, staleness, strict=True))
        return Decision(train=train, wake_at=math.inf, orders=(PassUp(result, passed),))
