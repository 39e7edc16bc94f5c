"""GSGM: fast devices are blocked until every device has delivered; the step is a partial average with momentum.

Wang, Li, Li, Zhou, Li, Xu, Guo: Gradient Scheduling With Global Momentum for Asynchronous Federated Learning in Edge
Environment. IEEE IoT Journal 9(19), 2022; a preprint of 2019 is arXiv:1902.07848. As the baseline of Zhou et al. 2024
(EAFL), section VI.

Symbols
    white list      devices whose update may be applied
    s               gradients in the partial average
    g_i             −Δ_i/η, the gradient of device i, summed over its local steps
    ḡ               mean of the last s applied gradients
    v, β            server momentum and its decay
    η               server learning rate, as a multiple of ``training.lr``: ``eta``
    N               devices that are present

Rule
    an update of a listed device is applied, and the device leaves the list; an update of another device waits, and
    that device gets no new model, until the list is empty and is filled again with all devices
    v ← β v + ḡ
    w ← w − η v

Departures
    The default of η is (1 − β)/N: then the momentum steps of the N gradients of one list add up to their mean. With a
    learning rate that does not fall with N a large fleet diverges, since each gradient is as old as the list.
    Updates that waited are applied one by one in the order of their arrival, each with a version of its own.
    A list never waits for an absent device: a device that leaves is removed. One that joins enters the list, unless its
    update was applied since the list was filled; an update that arrived before its device left counts.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from aggregator.pacing import idle_devices
from aggregator.strategy import Decision, Server, Strategy
from aggregator.strategy.vectors import add_scaled, plus_scaled
from testbed.common.parameters import param
from testbed.wire.messages import Update, Vector
from testbed.wire.training_job import Job


@dataclass(kw_only=True)
class GSGM(Strategy):
    """White list, partial average and server momentum (Wang et al., IoT Journal 2022)."""

    own_selection = "waits in turn for every device"

    s: int = param(3, "s: gradients in the partial average", at_least=1)
    beta: float = param(0.5, "β: decay of the momentum", at_least=0, below=1)
    eta: float | None = param(None, "η: server learning rate, as a multiple of training.lr; unset: (1 − β)/N", above=0)

    _served: set[str] = field(default_factory=set, init=False, repr=False)
    """Devices whose updates were applied since the list was filled. The white list has all others."""
    _listed: set[str] = field(default_factory=set, init=False, repr=False)
    """The present devices on the white list."""
    _waiting: deque[Update] = field(default_factory=deque, init=False, repr=False)
    _window: deque[Vector] = field(default_factory=deque, init=False, repr=False)
    """The last s applied updates. Δ is used instead of g, with the opposite sign."""
    _v: Vector | None = field(default=None, init=False, repr=False)

    def on_start(self, server: Server) -> Decision:
        self._listed.update(server.devices)
        return Decision(train={device: self.job(device, server) for device in server.devices})

    def on_join(self, device: str, server: Server) -> Decision:
        if device not in self._served:
            self._listed.add(device)
        return self._apply_if_due(server, {device: self.job(device, server)})

    def on_leave(self, device: str, server: Server) -> Decision:
        self._listed.discard(device)
        self._refill_if_empty(server)
        return self._apply_if_due(server, {})

    def on_ready(self, device: str, server: Server) -> Decision:
        return self._apply_if_due(server, {device: self.job(device, server)})

    def on_update(self, update: Update, server: Server) -> Decision:
        self._waiting.append(update)
        return self._apply_if_due(server, {})

    def on_wake(self, server: Server) -> Decision:
        return self._apply_if_due(server, {})

    def _refill_if_empty(self, server: Server) -> None:
        if not self._listed:
            self._served.clear()
            self._listed.update(server.devices)

    def _apply_if_due(self, server: Server, train: dict[str, Job]) -> Decision:
        """Apply one update of a listed device, the one that waits longest; if there are more, wake again at once."""
        place = self._next()
        if place is None:
            return Decision(train=train)
        update = self._waiting[place]
        del self._waiting[place]
        self._served.add(update.device)
        self._listed.discard(update.device)
        self._refill_if_empty(server)
        model, weight = self._step(update, server)
        train |= {device: self.job(device, server) for device in idle_devices([update.device], server)}
        again = server.now if self._next() is not None else None
        return Decision(model=model, applied={update.ticket: weight}, train=train, wake_at=again)

    def _next(self) -> int | None:
        return next((i for i, update in enumerate(self._waiting) if update.device not in self._served), None)

    def _step(self, update: Update, server: Server) -> tuple[Vector, float]:
        if self._v is None:
            self._v = np.zeros_like(server.model)
        self._window.append(update.delta)
        if len(self._window) > self.s:
            self._window.popleft()
        eta = self.eta or (1 - self.beta) / max(len(server.devices), 1)
        share = 1 / len(self._window)
        self._v *= np.float32(self.beta)
        for delta in self._window:
            add_scaled(self._v, share, delta)  # v ← β v + ḡ
        return plus_scaled(server.model, eta, self._v), eta * share  # w ← w − η v
