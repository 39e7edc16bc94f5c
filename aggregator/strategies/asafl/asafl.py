"""ASAFL: rounds of K_t devices over a shared uplink; every version uses the latest gradient of all devices.

Chen, Yi, Shin, Nallanathan: Adaptive Semi-Asynchronous Federated Learning over Wireless Networks. 2024, Algorithms 1 to
4.

Symbols
    N       devices
    S_t     the K_t devices of round t; when, and how fast, each uploads: ``aggregator.strategies.asafl.granted_rounds``
    g̃_n     −Δ_n/η, the gradient of device n, summed over its local steps      (4)
    G_n     the latest g̃_n that was received; 0 before the first

Rule
    G_n ← g̃_n for n ∈ S_t                                                       (5)
    x_{t+1} = x_t − η · (1/N) Σ_{n=1}^N G_n                                     Algorithm 1, line 9
    only S_t receive x_{t+1}; the others continue with the models that they have
    memory = "light":       S_t upload g̃_n − G_n, and the server keeps their sum      Algorithm 4
    calibrated = false:     x_{t+1} = x_t − η · (1/K_t) Σ_{n∈S_t} g̃_n                  SAFL, in the same cell
    tau_0 = τ_0:            x_{t+1} also goes to all devices more than τ_0 versions behind it, which start over;
                            with calibrated = false, SAFL-SC in the same cell                   section V.A
    control = "synchronous": each round, x_t goes to K devices drawn at random, and all of them are waited for; with
                            calibrated = false, synchronous FL in the same cell                 section V.A

Readings
    Devices send Δ = −η·g̃, so that the server need not know η. For lost uploads under Algorithm 4, see
    ``aggregator.strategies.asafl.gradient_memory``.
    Grants are sent when a round begins, also to devices that still compute: Algorithm 3 fixes the shares then.

Departures
    The rates of a round hold until it ends. If a device of S_t leaves or gives up its upload, the round ends with the
    updates of the others; if none is left, it is planned again for the same version.
    N counts every device that has ever been present: after it has left, its last gradient still counts.
    The paper's rounds end when the last upload does. Here a link may have a delay, which is added.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from aggregator.strategies.asafl.gradient_memory import Differences, Mismatch
from aggregator.strategies.asafl.granted_rounds import GrantedRounds
from aggregator.strategy import Server
from aggregator.strategy.latest_updates import LatestUpdates
from aggregator.strategy.vectors import Sum, plus_scaled
from testbed.common.parameters import ParameterError, param
from testbed.wire.messages import Update, Vector


@dataclass(kw_only=True)
class ASAFL(GrantedRounds):
    """Adaptive semi-asynchronous, gradients of absent devices reused, over a radio cell (Chen et al., 2024)."""

    unused: ClassVar[str] = "its difference has another baseline than the server"

    calibrated: bool = param(True, "whether every version uses the latest gradients of all; false: SAFL, those of S_t")
    memory: str = param(
        "full",
        "where gradients are kept: all N on the server (Algorithm 1), or each on its device (Algorithm 4)",
        choices=("full", "light"),
    )

    _latest: LatestUpdates | None = field(default=None, init=False, repr=False)
    _differences: Differences | None = field(default=None, init=False, repr=False)
    _applied: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    """Device → the ticket of its latest gradient."""

    def check(self, devices: int) -> None:
        super().check(devices)
        if self.memory == "light" and not self.calibrated:
            raise ParameterError("memory", "is light, but with calibrated = false no gradients are kept: leave it out")

    def last_applied(self, device: str) -> int | None:
        return self._applied.get(device, 0) if self.memory == "light" else None

    @property
    def keeps_old_base(self) -> bool:
        return self.memory == "full"  # Algorithm 4: the lost model would have named the baseline of the next difference

    @property
    def resumable(self) -> bool:
        return self.memory == "full"  # Algorithm 4: half of the state is on the devices

    @property
    def keeps_update_after_rejoin(self) -> bool:
        return self.memory == "full"  # Algorithm 4: no update may be open when a device learns its baseline

    def new_model(self, updates: Sequence[Update], server: Server) -> tuple[Vector, dict[int, float]]:
        if not self.calibrated:
            return super().new_model(updates, server)
        total = self._add_differences(updates, server) if self.memory == "light" else self._replace(updates, server)
        share = 1 / len(server.known)
        model = plus_scaled(server.model, share, total)  # Algorithm 1, line 9
        return model, dict.fromkeys(self._applied.values(), share)

    def _replace(self, updates: Sequence[Update], server: Server) -> Sum:
        latest = self._latest = self._latest or LatestUpdates(server.model)
        for update in updates:
            latest.replace(update.device, update.delta)  # (5)
            self._applied[update.device] = update.ticket
        return latest.total

    def _add_differences(self, updates: Sequence[Update], server: Server) -> Sum:
        kept = self._differences = self._differences or Differences(server.model)
        for update in updates:
            with contextlib.suppress(Mismatch):  # an update that is not added is rejected
                kept.add(update.device, update.ticket, update.delta, update.since)
                self._applied[update.device] = update.ticket
        return kept.total
