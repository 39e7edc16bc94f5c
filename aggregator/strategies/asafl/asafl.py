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
    only S_t receive x_{t+1}; the others go on with what they have
    memory = "light":       S_t upload g̃_n − G_n, and the server keeps their sum      Algorithm 4
    calibrated = false:     x_{t+1} = x_t − η · (1/K_t) Σ_{n∈S_t} g̃_n                  SAFL, in the same cell
    tau_0 = τ_0:            x_{t+1} goes to all that are more than τ_0 versions behind it, too, which begin anew;
                            with calibrated = false, SAFL-SC in the same cell                   section V.A

Readings
    Devices send Δ = −η·g̃, so that the server need not know η. What lost uploads mean for Algorithm 4 is told in
    ``aggregator.strategies.asafl.gradient_memory``.
    Grants are pushed when a round begins, to devices that still compute, too: Algorithm 3 fixes the shares then.

Departures
    The rates of a round hold until it ends. If a device of S_t leaves or gives its upload up, the round is over when
    the others have come; if none is left, it is planned anew for the same version.
    N counts every device that has ever been there: one that has left goes on counting with its last gradient.
    The paper's rounds end when the last upload does. Here a link may have a delay, which comes on top.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from aggregator.strategies.asafl.gradient_memory import Differences, Latest, Mismatch
from aggregator.strategies.asafl.granted_rounds import Granting
from aggregator.strategy import Server
from aggregator.strategy.vectors import Sum, plus_scaled
from testbed.common.parameters import ParameterError, param
from testbed.wire.messages import Update, Vector


@dataclass(kw_only=True)
class ASAFL(Granting):
    """Adaptive semi-asynchronous, gradients of absent devices reused, over a radio cell (Chen et al., 2024)."""

    unused: ClassVar[str] = "its difference is not counted from what the server has"

    calibrated: bool = param(True, "whether every version uses the latest gradients of all; false: SAFL, those of S_t")
    memory: str = param(
        "full",
        "where they are kept: all N on the server (Algorithm 1), or each on its device (Algorithm 4)",
        choices=("full", "light"),
    )

    _latest: Latest | None = field(default=None, init=False, repr=False)
    _differences: Differences | None = field(default=None, init=False, repr=False)
    _heard: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    """Device → the ticket of its latest gradient."""

    def check(self, devices: int) -> None:
        super().check(devices)
        if self.memory == "light" and not self.calibrated:
            raise ParameterError("memory", "is light; without calibration there is nothing to keep: leave it out")

    def last_applied(self, device: str) -> int | None:
        return self._heard.get(device, 0) if self.memory == "light" else None

    @property
    def resumable(self) -> bool:
        return self.memory == "full"  # Algorithm 4: the devices have the other half

    @property
    def outlasts_a_return(self) -> bool:
        return self.memory == "full"  # Algorithm 4: nothing may be undecided when a device is told what was taken

    def new_model(self, updates: Sequence[Update], server: Server) -> tuple[Vector, dict[int, float]]:
        if not self.calibrated:
            return super().new_model(updates, server)
        total = self._take_differences(updates, server) if self.memory == "light" else self._take(updates, server)
        share = 1 / len(server.known)
        model = plus_scaled(server.model, share, total)  # Algorithm 1, line 9
        return model, dict.fromkeys(self._heard.values(), share)

    def _take(self, updates: Sequence[Update], server: Server) -> Sum:
        latest = self._latest = self._latest or Latest(server.model)
        for update in updates:
            latest.take(update.device, update.delta)  # (5)
            self._heard[update.device] = update.ticket
        return latest.total

    def _take_differences(self, updates: Sequence[Update], server: Server) -> Sum:
        kept = self._differences = self._differences or Differences(server.model)
        for update in updates:
            with contextlib.suppress(Mismatch):  # what was not taken is rejected
                kept.take(update.device, update.ticket, update.delta, update.since)
                self._heard[update.device] = update.ticket
        return kept.total
