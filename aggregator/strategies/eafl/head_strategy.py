"""The strategy of a cluster head: wait for the fastest members, merge their updates, pass the result up (SAA)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from aggregator.strategies.eafl.cluster_orders import PassUp
from aggregator.strategies.eafl.two_stage import merge_weights, saa
from aggregator.strategy import Decision, Server, Strategy
from testbed.wire.messages import Update


class HeadStrategy(Strategy):
    """SAA: wait for the fastest ⌈φ·|X_n|⌉ members, and weigh them by samples and staleness.

    Updates that come while the head waits for the next model are first in line for the next result; of more than
    that takes, the others for the one after it. Nobody whose update waits is given another job meanwhile, so all get
    their turn.
    """

    def __init__(self, quorum: int, damped: bool) -> None:
        self.quorum, self._damped = quorum, damped
        self._gathered: list[Update] = []
        self._waits = False
        """For the next model: the last result is on its way."""

    def on_start(self, server: Server) -> Decision:
        return self.on_model(server)

    def on_model(self, server: Server) -> Decision:
        """A new model: for those who took part in the last result, and whoever else has nothing to do.

        Not for those whose updates wait: these are used first.
        """
        self._waits = False
        done = {update.device for update in self._gathered}
        idle = [device for device in server.devices if device not in server.busy and device not in done]
        return self._merge_if_due(server, idle)

    def on_join(self, device: str, server: Server) -> Decision:
        return self._merge_if_due(server, [device])

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
        taken, self._gathered, self._waits = self._gathered[:count], self._gathered[count:], True
        samples, staleness = [update.samples for update in taken], [server.staleness(update) for update in taken]
        result = saa([update.delta for update in taken], samples, staleness, damped=self._damped)
        weights = merge_weights(samples, staleness, damped=self._damped)
        applied = {update.ticket: weight for update, weight in zip(taken, weights, strict=True)}
        return Decision(train=train, wake_at=math.inf, orders=(PassUp(result, applied),))
